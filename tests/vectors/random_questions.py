# SPDX-License-Identifier: Apache-2.0
"""Random questions to the originals, the same in every run: see
record_random.py."""
import random

AXES = ["dp", "fsdp", "tp", "sp", "ep"]
NAMES = ["batch", "embed", "mlp", "heads", "kv", "vocab"]
TOKENS = ["BATCH", "LENGTH", "KV_LENGTH", "QUERY_LENGTH", "EMBED", "HEAD",
          "KV_HEAD", "MLP_INTERMEDIATE", "VOCAB", "EXPERT", "EXPERT_GATE",
          "HEAD_DIM", "KV_HEAD_DIM", "BIAS_HEAD_SEQ", "BIAS_KV_SEQ",
          "DATA_PARALLEL", "FULLY_SHARDED_DATA_PARALLEL", "TENSOR_PARALLEL",
          "EXPERT_PARALLEL", "SEQUENCE_PARALLEL"]
MODES = ["__train__", "__prefill__", "__autoregressive__", "__insert__", "other"]
FIELDS = ["data_parallel_axis", "fully_sharded_data_parallel_axis",
          "tensor_parallel_axis", "sequence_parallel_axis",
          "expert_parallel_axis", "batch_axis", "sequence_axis",
          "query_sequence_axis", "head_axis", "kv_head_axis",
          "key_sequence_axis", "hidden_state_axis", "mlp_intermediate_axis",
          "vocab_axis", "expert_axis", "expert_gate_axis",
          "attention_dim_axis", "attention_kv_dim_axis",
          "bias_head_sequence_axis", "bias_key_sequence_axis",
          "decode_batch_axis", "decode_query_sequence_axis",
          "decode_head_axis", "decode_kv_head_axis",
          "decode_key_sequence_axis", "decode_attention_dim_axis",
          "decode_attention_kv_dim_axis"]
PRESETS = ["HiddenStateSharding", "AttnQSharding", "AttnKVSharding", "RowWise",
           "SRowWise", "ColumnWise", "SColumnWise", "Replicated",
           "ExpertColumnWise", "ExpertRowWise", "ExpertColumnWiseAlt",
           "ExpertRowWiseAlt", "UnifiedExpertColumnWise",
           "UnifiedExpertRowWise", "ExpertActivations", "ExpertActivationsAlt"]
PARTS = ["model", "layers", "attn", "mlp", "q_proj", "kernel", "bias", "norm",
         "0", "1", "11", "w1"]
PATTERNS = ["kernel", "attn", "q_proj/kernel", "bias$", "^model", "mlp/.*bias",
            r"layers/\d+", "w[12]", "(attn|mlp)", "norm|bias", "1{2}", ".*", "a.t"]


def axis(r):
    return r.choice(AXES)


def entry(r, more=0.3):
    """An entry of a spec: None, a name or a tuple."""
    kind = r.random()
    if kind < 0.3:
        return None
    if kind < 1 - more:
        return axis(r)
    return [axis(r) for _ in range(r.randint(0, 3))]


def spec(r, longest=4):
    return [entry(r) for _ in range(r.randint(0, longest))]


def mesh(r, most=32):
    names = r.sample(AXES, r.randint(1, 4))
    sizes = [1] * len(names)
    for i in range(len(names)):
        sizes[i] = r.choice([n for n in (1, 2, 3, 4, 8)
                             if n * product(sizes) <= most])
    return {"axis_names": names, "shape": sizes}


def product(sizes):
    result = 1
    for size in sizes:
        result *= size
    return result


def shape(r, most=4):
    return [r.choice([0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 64])
            for _ in range(r.randint(0, most))]


def logical_rules(r):
    def value():
        kind = r.random()
        if kind < 0.2:
            return None
        if kind < 0.7:
            return axis(r)
        several = [axis(r) for _ in range(r.randint(0, 3))]
        return {"$list": several} if r.random() < 0.3 else several
    rules = [[r.choice(NAMES), value()] for _ in range(r.randint(0, 9))]
    if r.random() < 0.1:
        rules.insert(r.randint(0, len(rules)), [None, axis(r)])
    return rules


def labels(r):
    many = [r.choice(NAMES + [None, None, "other"])
            for _ in range(r.randint(0, 5))]
    if r.random() < 0.7:  # most without repetition
        many = [n for i, n in enumerate(many) if n is None or n not in many[:i]]
    if r.random() < 0.1:
        many.append({"$unconstrained": True})
    if r.random() < 0.06:
        return r.choice(["ab", "embed", "", "mlp"])  # walked letter by letter
    return many


def semantic_entry(r):
    kind = r.random()
    if kind < 0.1:
        return r.choice([None, "_"])
    if kind < 0.15:
        return r.choice(["tp", "BATCH", "head_axis", ""])
    token = "__%s__" % r.choice(TOKENS)
    if kind < 0.8:
        return token
    items = [r.choice(["__%s__" % r.choice(TOKENS), "__%s__" % r.choice(TOKENS),
                       "head_axis", "tp", "batch_axis"])
             for _ in range(r.randint(0, 3))]
    return {"$list": items} if kind < 0.95 else items


def kwargs(r):
    given = {}
    for _ in range(r.choice([0, 0, 1, 2, 4])):
        given[r.choice(FIELDS)] = r.choice(
            [None, "x", "tp", ["a", "b"], ["a"], [], {"$list": ["c", "d"]},
             "$NOT_GIVEN" if r.random() < 0.2 else "y"])
    if r.random() < 0.03:
        given["no_such_axis"] = "x"
    # A mesh axis of several names is beyond its type.
    for field in FIELDS[:5]:
        if isinstance(given.get(field), (list, dict)):
            del given[field]
    return given


def manager_inputs(r):
    inputs = {"kwargs": kwargs(r)}
    kind = r.random()
    if kind < 0.35:
        inputs["axes_class"] = r.choice(PRESETS)
    elif kind < 0.5:
        inputs["dynamic_class"] = r.choice(PRESETS)
    elif kind < 0.6:
        inputs["axes_instance"] = {"axes": [semantic_entry(r)],
                                   "mode": r.choice(MODES)}
    elif kind < 0.95:
        inputs["axes"] = [semantic_entry(r) for _ in range(r.randint(0, 3))]
        inputs["mode"] = r.choice(MODES + [0, 1, -1, 2, True, 1.0])
    if r.random() < 0.8:
        inputs["shape"] = [r.choice([0, 1, 1, 4]) for _ in range(r.randint(0, 4))]
    return inputs


def asked_twice():
    """Axes of a PartitionManager that come from two places at once."""
    train, decode = MODES[0], MODES[2]
    batch = {"axes": ["__BATCH__"], "mode": train}
    later = {"axes": ["__HEAD__", "__EMBED__"], "mode": decode}
    questions = [
        {"axes_class": "RowWise", "dynamic_class": "ColumnWise"},
        {"axes_class": "RowWise", "dynamic_instance": batch},
        {"axes_class": "RowWise", "dynamic_instance": None},
        {"axes_class": "RowWise", "dynamic_class": "ColumnWise", "mode": train},
        {"axes_class": "RowWise", "mode": train},
        {"axes_class": "AttnQSharding", "dynamic_class": "HiddenStateSharding",
         "shape": [4, 1, 8, 8]},
        {"axes_instance": batch, "mode": train},
        {"axes_instance": batch, "mode": decode},
        {"axes_instance": batch, "mode": 1, "shape": [4, 1]},
        {"axes_instance": batch, "mode": 1},
        {"axes_instance": {"axes": ["__BATCH__"], "mode": 1}, "mode": train,
         "shape": [4, 1]},
        {"axes_instance": later, "mode": train},
        {"axes_instance": batch, "dynamic_class": "ColumnWise"},
        {"axes_instance": batch, "dynamic_class": "ColumnWise", "mode": train},
        {"axes_instance": batch, "dynamic_instance": later},
        {"axes": ["__BATCH__"], "dynamic_class": "ColumnWise"},
        {"axes": ["__BATCH__"], "dynamic_class": "ColumnWise", "mode": train},
        {"axes": [{"$list": ["__LENGTH__", "__KV_HEAD_DIM__"]}], "mode": train},
        {"axes": [{"$list": ["__KV_HEAD_DIM__", "__LENGTH__"]}, "__HEAD__"],
         "mode": train},
        {"axes": [{"$list": ["__KV_HEAD_DIM__"]}], "mode": train},
    ]
    return [dict(question, kwargs={}) for question in questions]


def tree(r, depth=0):
    kind = r.random()
    if depth > 2 or kind < 0.3 and depth > 0:
        return {"$shape": shape(r)}
    if kind < 0.45 and depth > 0:
        items = [tree(r, depth + 1) for _ in range(r.randint(0, 3))]
        return items if r.random() < 0.5 else {"$tuple": items}
    if kind < 0.5 and depth > 0:
        return r.choice([None, 3])
    return {key: tree(r, depth + 1)
            for key in r.sample(PARTS, r.randint(1, 4))}


def pattern_text(r):
    rules = []
    for _ in range(r.randint(0, 4)):
        left = "|".join(r.choice(PATTERNS + ["", " mlp"])
                        for _ in range(r.randint(1, 3)))
        right = ".".join(r.choice(AXES + ["", "None"])
                         for _ in range(r.randint(1, 3)))
        rules.append(r.choice([left + "->" + right] * 6 +
                              [left, left + " -> " + right,
                               left + "->" + right + "->x"]))
    return ",".join(rules)


def legal_spec(r, on, rank):
    names = on["axis_names"][:]
    r.shuffle(names)
    dims = [[] for _ in range(rank)]
    for name in names:
        if rank and r.random() < 0.8:
            r.choice(dims).append(name)
    entries = [d[0] if len(d) == 1 else (d or None) for d in dims]
    while entries and entries[-1] is None and r.random() < 0.5:
        entries.pop()
    return entries


def layout_inputs(r):
    on = mesh(r, 24)
    rank = r.randint(0, 3)
    return {"shape": [r.choice([12, 24, 48, 96, 5]) for _ in range(rank)],
            "spec": legal_spec(r, on, rank) if r.random() < 0.8 else spec(r, 3),
            "mesh": on}


def auto_inputs(r):
    on = mesh(r, 8)
    names = r.choice([None, None, r.sample(on["axis_names"],
                                           len(on["axis_names"]))])
    if names and len(names) > 2 and r.random() < 0.5:
        names = [names[:2]] + names[2:]
    return {"shape": shape(r), "mesh": on, "names": names,
            "min_sharding_size": r.choice([None, None, 0, 1, 100]),
            "reverse": r.random() < 0.4, "version": "head"}


def mesh_text(r):
    names = r.sample(AXES, r.randint(1, 3))
    used = names[:]
    r.shuffle(used)
    if r.random() < 0.3:
        used[r.randrange(len(used))] = r.choice(AXES + [" tp"])
    size = lambda: r.choice(["1", "2", "4", "8", "-1", " 2", "+4", "1_0", "x", ""])
    parts = [size() for _ in used] if r.random() < 0.4 else [
        n + ":" + size() for n in used]
    return {"axis_dims": ",".join(parts), "names": names, "devices": 8}


QUESTIONS = {
    "flax.logical_to_mesh_axes": (90, lambda r: {
        "array_dim_names": labels(r), "rules": logical_rules(r)}),
    "flax._logical_to_mesh_axes": (30, lambda r: {
        "array_dim_names": labels(r), "rules": logical_rules(r)}),
    "flax.with_logical_constraint": (50, lambda r: {
        "array_dim_names": [n for n in labels(r) if not isinstance(n, dict)],
        "rules": logical_rules(r),
        "fallback": r.choice(["axis_is_unsharded", "raise_error",
                              "no_constraint"])}),
    "PartitionAxis": (15, lambda r: {"kwargs": kwargs(r)}),
    "PartitionAxis.resolve_axis": (40, lambda r: {
        "kwargs": kwargs(r), "mode": r.choice(MODES),
        "axes": [semantic_entry(r) for _ in range(r.randint(0, 4))]}),
    "PartitionAxis.resolve_spec": (80, lambda r: {
        "kwargs": kwargs(r), "mode": r.choice(MODES),
        "axes": [semantic_entry(r) for _ in range(r.randint(0, 4))]}),
    "PartitionManager.resolve": (80, manager_inputs),
    "get_safe_hash_int": (24, lambda r: {
        "text": r.choice(["", "a", "größe", "x" * 200, 7, -1.5, True, None]),
        "algorithm": r.choice(["md5", "sha1", "sha224", "sha256", "sha384",
                               "sha512", "sha3_224", "sha3_256", "sha3_384",
                               "sha3_512", "blake2b", "blake2s", "shake_128",
                               "new", "SHA1", "crc32"])}),
    "get_corrected_named_sharding": (60, lambda r: {
        "shape": shape(r), "spec": spec(r), "mesh": mesh(r),
        "raise_mesh_error": True}),
    "shard_layout": (30, layout_inputs),
    "match_partition_rules": (60, lambda r: {
        "rules": [[r.choice(PATTERNS), spec(r)] for _ in range(r.randint(1, 6))]
                 + ([[".*", []]] if r.random() < 0.6 else []),
        "tree": tree(r), "min_size": r.choice(["default", 0, 16, 16.5, None]),
        "strict": r.random() < 0.8}),
    "create_pattern_based_partition_spec": (40, lambda r: {
        "pattern": pattern_text(r), "mesh_given": True,
        "names": ["/".join(r.sample(PARTS, 3)) for _ in range(3)],
        "default_spec": r.choice([None, None, spec(r)])}),
    "auto_partition_spec": (40, auto_inputs),
    "create_mesh": (20, lambda r: {
        "axis_dims": [r.choice([-1, 1, 2, 2, 4, 8, 0, -3]) for _ in range(3)],
        "axis_names": r.sample(AXES, 3), "devices": 8}),
    "parse_mesh_from_string": (40, mesh_text),
    "get_axes_size_in_mesh": (15, lambda r: {
        "axis_names": r.choice([axis(r), [axis(r) for _ in range(r.randint(0, 3))],
                                7]), "mesh": mesh(r)}),
    "get_names_from_partition_spec": (15, lambda r: {
        "specs": r.choice([spec(r), {"a": spec(r), "b": {"c": spec(r)}},
                           [{"$unconstrained": True}], "sp", None])}),
}


def make_cases():
    cases = []
    for function, (count, make) in QUESTIONS.items():
        r = random.Random("shardplan " + function)
        for number in range(count):
            cases.append({"id": "recorded-%s-%03d" % (function, number),
                          "function": function, "inputs": make(r)})
    function = "PartitionManager.resolve"
    for number, inputs in enumerate(asked_twice()):
        cases.append({"id": "recorded-%s-twice-%03d" % (function, number),
                      "function": function, "inputs": inputs})
    # None beside an axis, as eFormer corrects it.
    for number, made in enumerate([[["sp", None]], [[None, "sp"], "tp"],
                                   [["sp", None], ["tp", "fsdp"]], [[None]]]):
        cases.append({"id": "recorded-none-beside-an-axis-%03d" % number,
                      "function": "get_corrected_named_sharding",
                      "inputs": {"shape": [8, 8], "spec": made,
                                 "mesh": {"axis_names": ["sp", "tp", "fsdp"],
                                          "shape": [2, 2, 2]},
                                 "raise_mesh_error": True}})
    return cases
