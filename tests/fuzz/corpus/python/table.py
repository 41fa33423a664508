return (("wte/embedding", PS("tp", ("fsdp", "sp"))), (r".*\d", P(None)),)
