class C:
    base_model_tp_plan = {
        "layers.*.q": "colwise",  # x
        "n": "sequence_parallel",
    }
