r = [(("mlp", "c_fc|x$", "[^a]"), P(None, "mp")), (("ln_.*",), None)]
