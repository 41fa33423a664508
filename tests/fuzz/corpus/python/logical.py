L = (("batch", ("data","fsdp")), ("embed", None), (None, "x"))
