x = (("a" f"b", P(lambda: 3)), ("\N{DASH}", P(x if y else z)), *more)
