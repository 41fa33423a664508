# SPDX-License-Identifier: Apache-2.0
"""The programs that record_programs.py records: each written once, for JAX and
as a graph file of shardplan.

A value is "shape : spec", such as "8,16 : dp -": an entry per dimension, `-`
for none, `dp+tp` for two axes, major first; without a spec it is replicated.
`ids64` after the shape makes it integers below 64. A line of `ops` is "results
= operation operands attribute=value ...", where lists have commas, and dots in
a spec stand for blanks. `out` is the spec of the results; without it XLA
chooses.
"""
PROGRAMS = []


def program(name, mesh, inputs, parameters, ops, out=None):
    """`name` begins with its group: "mlp: Megatron"."""
    PROGRAMS.append({
        "group": name.split(":")[0], "name": name, "mesh": mesh,
        "inputs": inputs, "parameters": parameters,
        "ops": [line.strip() for line in ops.strip().splitlines()],
        "out": out})


TP, DP_TP, FSDP_TP = "tp=8", "dp=4,tp=2", "fsdp=4,tp=2"
DP_TP4, CUBE = "dp=2,tp=4", "dp=2,fsdp=2,tp=2"


def matmul(name, mesh, x, w, out=None):
    program("matmul: " + name, mesh, {"x": "8,16 : " + x},
            {"w": "16,32 : " + w}, "y = einsum x w equation=bi,io->bo", out)


matmul("columns", TP, "- -", "- tp")
matmul("columns, result replicated", TP, "- -", "- tp", "- -")
matmul("rows", TP, "- tp", "tp -")
matmul("rows, result replicated", TP, "- tp", "tp -", "- -")
matmul("rows, scattered over columns", TP, "- tp", "tp -", "- tp")
matmul("rows, scattered over the batch", TP, "- tp", "tp -", "tp -")
matmul("batch and contraction on one axis", "fsdp=8", "fsdp -", "fsdp -")
matmul("batch and contraction on one axis, result on the batch", "fsdp=8",
       "fsdp -", "fsdp -", "fsdp -")
matmul("batch and columns on one axis", "fsdp=8", "fsdp -", "- fsdp")
matmul("batch and columns on one axis, result on the batch", "fsdp=8",
       "fsdp -", "- fsdp", "fsdp -")
matmul("batch and columns on one axis, result on the columns", "fsdp=8",
       "fsdp -", "- fsdp", "- fsdp")
matmul("batch alone", "dp=8", "dp -", "- -")
matmul("batch and columns on two axes", DP_TP, "dp -", "- tp")
matmul("batch, and a weight on both axes", FSDP_TP, "fsdp -", "fsdp tp")
matmul("batch, and a weight on both axes, result on both", FSDP_TP, "fsdp -",
       "fsdp tp", "fsdp tp")
matmul("batch and rows, weight on both axes", FSDP_TP, "fsdp tp", "tp fsdp",
       "fsdp -")
matmul("contraction sharded in the activation alone", TP, "- tp", "- -")
matmul("contraction sharded in the weight alone", TP, "- -", "tp -")
matmul("contraction on two different axes", DP_TP, "- dp", "tp -")
matmul("contraction on two axes in two orders", DP_TP, "- dp+tp", "tp+dp -")
matmul("contraction on two axes", DP_TP, "- dp+tp", "dp+tp -")
matmul("contraction on two axes, scattered over both", DP_TP, "- dp+tp",
       "dp+tp -", "dp tp")
matmul("all three on both axes, as in SUMMA", DP_TP, "dp tp", "dp tp", "dp tp")
matmul("three axes", CUBE, "dp+fsdp -", "fsdp tp", "dp+fsdp tp")
matmul("three axes, contraction on one", CUBE, "dp tp", "tp fsdp", "dp fsdp")
matmul("replicated operands, sharded result", DP_TP, "- -", "- -", "dp tp")
program("matmul: transposed weight, columns", TP, {"x": "8,16 : - -"},
        {"w": "32,16 : tp -"}, "y = einsum x w equation=bi,oi->bo")
program("matmul: transposed weight, rows", TP, {"x": "8,16 : - tp"},
        {"w": "32,16 : - tp"}, "y = einsum x w equation=bi,oi->bo", "- -")
program("matmul: a large weight and a small batch on one axis", "fsdp=8",
        {"x": "8,16 : fsdp -"}, {"w": "16,96 : fsdp -"},
        "y = einsum x w equation=bi,io->bo", "fsdp -")
program("matmul: a small weight and a large batch on one axis", "fsdp=8",
        {"x": "64,16 : fsdp -"}, {"w": "16,8 : fsdp -"},
        "y = einsum x w equation=bi,io->bo", "fsdp -")
program("matmul: columns with a bias", TP, {"x": "8,16 : - -"},
        {"w": "16,32 : - tp", "b": "32 : tp"},
        "y = linear x w b", "- tp")
program("matmul: rows with a bias", TP, {"x": "8,16 : - tp"},
        {"w": "16,32 : tp -", "b": "32 : -"},
        "y = linear x w b", "- -")
program("matmul: rows with a bias, scattered", TP, {"x": "8,16 : - tp"},
        {"w": "16,32 : tp -", "b": "32 : tp"},
        "y = linear x w b", "- tp")
program("matmul: columns then rows", TP, {"x": "8,16 : - -"},
        {"v": "16,32 : - tp", "w": "32,16 : tp -"},
        """h = einsum x v equation=bi,ih->bh
           y = einsum h w equation=bh,ho->bo""", "- -")
program("matmul: rows then columns", TP, {"x": "8,16 : - tp"},
        {"v": "16,32 : tp -", "w": "32,16 : - tp"},
        """h = einsum x v equation=bi,ih->bh
           y = einsum h w equation=bh,ho->bo""")
program("matmul: one activation, three weights by columns", TP,
        {"x": "8,16 : - tp"},
        {"q": "16,16 : - tp", "k": "16,8 : - tp", "v": "16,8 : - tp"},
        """a = einsum x q equation=bi,io->bo
           b = einsum x k equation=bi,io->bo
           c = einsum x v equation=bi,io->bo""", "- tp")


def batched(name, mesh, a, b, out=None):
    program("batched: " + name, mesh, {"a": "8,8,16 : " + a,
                                       "b": "8,16,8 : " + b},
            {}, "c = einsum a b equation=bij,bjk->bik", out)


batched("both on the batch", "dp=8", "dp - -", "dp - -")
batched("one on the batch", "dp=8", "dp - -", "- - -")
batched("batch on two axes", DP_TP, "dp - -", "tp - -", "dp - -")
batched("batch and contraction", DP_TP, "dp - tp", "dp tp -", "dp - -")
batched("batch against contraction on one axis", "dp=8", "dp - -", "- dp -")
program("batched: scores of heads", DP_TP, {"q": "4,8,4,8 : dp - tp -",
                                           "k": "4,8,4,8 : dp - tp -"},
        {}, "s = einsum q k equation=bqhd,bkhd->bhqk", "dp tp - -")


# Operations on `i`, which is `x`, or `x` under a constraint.
MLP = """h = einsum i up equation=bse,em->bsm
         a = gelu h approximate=tanh
         y = einsum a down equation=bsm,me->bse"""
GATED = """g = einsum i gate equation=bse,em->bsm
           u = einsum i up equation=bse,em->bsm
           s = silu g
           a = multiply s u
           y = einsum a down equation=bsm,me->bse"""


WHOLE_SEQUENCE = "i = constraint x spec=dp.-.-\n"


def mlp(name, mesh, x, up, down, out=None, ops=MLP):
    weights = {"up": "16,64 : " + up, "down": "64,16 : " + down}
    if GATED in ops:
        weights["gate"] = "16,64 : " + up
    first = "x" if WHOLE_SEQUENCE in ops else "i"
    program("mlp: " + name, mesh, {first: "4,8,16 : " + x}, weights, ops, out)


mlp("data parallel", "dp=4,tp=2", "dp - -", "- -", "- -", "dp - -")
mlp("Megatron", TP, "- - -", "- tp", "tp -", "- - -")
mlp("Megatron, batch on dp", DP_TP4, "dp - -", "- tp", "tp -", "dp - -")
mlp("Megatron, result left open", DP_TP4, "dp - -", "- tp", "tp -")
mlp("FSDP", FSDP_TP, "fsdp - -", "fsdp -", "fsdp -",
    "fsdp - -")
mlp("FSDP by columns", FSDP_TP, "fsdp - -", "- fsdp", "- fsdp", "fsdp - -")
mlp("FSDP and Megatron", FSDP_TP, "fsdp - -", "fsdp tp", "tp fsdp",
    "fsdp - -")
mlp("FSDP and Megatron, three axes", CUBE, "dp+fsdp - -", "fsdp tp",
    "tp fsdp", "dp+fsdp - -")
mlp("weights on both axes, activations on the features", FSDP_TP, "- - fsdp",
    "fsdp tp", "tp fsdp", "- - fsdp")
mlp("sequence parallel", DP_TP4, "dp tp -", "- tp", "tp -", "dp tp -",
    WHOLE_SEQUENCE + MLP)
mlp("sequence parallel, not told", DP_TP4, "dp tp -", "- tp", "tp -",
    "dp tp -")
mlp("hidden activations pinned", FSDP_TP, "fsdp - -", "fsdp tp", "tp fsdp",
    "fsdp - -", MLP.replace("a = gelu h", """j = constraint h spec=fsdp.-.tp
                                             a = gelu j"""))
mlp("gated, Megatron", DP_TP4, "dp - -", "- tp", "tp -", "dp - -", GATED)
mlp("gated, FSDP", FSDP_TP, "fsdp - -", "fsdp -", "fsdp -", "fsdp - -", GATED)
mlp("gated, FSDP and Megatron", FSDP_TP, "fsdp - -", "fsdp tp", "tp fsdp",
    "fsdp - -", GATED)
mlp("gated, sequence parallel", DP_TP4, "dp tp -", "- tp", "tp -",
    "dp tp -",
    WHOLE_SEQUENCE + GATED)
program("mlp: gate and up fused and cut", DP_TP4, {"x": "4,8,16 : dp - -"},
        {"wi": "16,128 : - tp", "down": "64,16 : tp -"},
        """h = einsum x wi equation=bse,em->bsm
           g u = split h dim=-1 sizes=64,64
           s = silu g
           a = multiply s u
           y = einsum a down equation=bsm,me->bse""", "dp - -")
program("mlp: biases", TP, {"x": "4,8,16 : - - -"},
        {"up": "16,64 : - tp", "c": "64 : tp", "down": "64,16 : tp -",
         "b": "16 : -"},
        """h = linear x up c
           a = relu h
           y = linear a down b""", "- - -")


# Products of small integers grow: the scale keeps a softmax from saturating.
ATTEND = """s = einsum q k equation=bqhd,bkhd->bhqk
            t = scale s by=0.35
            p = softmax t dim=-1
            o = einsum p v equation=bhqk,bkhd->bqhd"""
CAUSAL = ATTEND.replace("p = softmax t", "m = causal_mask t\np = softmax m")


def attention(name, mesh, q, kv, out=None, mask=True):
    program("attention: " + name, mesh, {
        "q": "4,8,8,8 : " + q, "k": "4,8,8,8 : " + kv, "v": "4,8,8,8 : " + kv},
        {}, CAUSAL if mask else ATTEND, out)


attention("heads", TP, "- - tp -", "- - tp -")
attention("batch", "dp=4,tp=2", "dp - - -", "dp - - -")
attention("batch and heads", DP_TP, "dp - tp -", "dp - tp -", "dp - tp -")
attention("no mask", DP_TP, "dp - tp -", "dp - tp -", "dp - tp -", mask=False)
attention("queries on sp, keys and values gathered", "sp=8", "- sp - -",
          "- sp - -", "- sp - -")
attention("queries on sp, keys and values whole", "sp=8", "- sp - -",
          "- - - -", "- sp - -")
attention("keys and values on sp, queries whole", "sp=8", "- - - -",
          "- sp - -", "- - - -", mask=False)
attention("features of heads", TP, "- - - tp", "- - - tp", "- - - tp")
program("attention: from the sequence to the heads and back (Ulysses)", "sp=8",
        {"x": "2,8,8,8 : - sp - -", "y": "2,8,8,8 : - sp - -",
         "z": "2,8,8,8 : - sp - -"}, {},
        """q = constraint x spec=-.-.sp.-
           k = constraint y spec=-.-.sp.-
           v = constraint z spec=-.-.sp.-
           """ + CAUSAL, "- sp - -")
GQA = """s = einsum q k equation=bqkgd,bskd->bkgqs
         t = scale s by=0.35
         m = causal_mask t
         p = softmax m dim=-1
         o = einsum p v equation=bkgqs,bskd->bqkgd"""
program("attention: grouped queries, key heads on tp", DP_TP,
        {"q": "4,8,2,2,8 : dp - tp - -", "k": "4,8,2,8 : dp - tp -",
         "v": "4,8,2,8 : dp - tp -"}, {}, GQA, "dp - tp - -")
program("attention: grouped queries, key heads whole", DP_TP,
        {"q": "4,8,2,2,8 : dp - - tp -", "k": "4,8,2,8 : dp - - -",
         "v": "4,8,2,8 : dp - - -"}, {}, GQA, "dp - - tp -")
program("attention: one new token, cache on sp", "dp=2,sp=4",
        {"q": "4,1,4,8 : dp - - -", "k": "4,16,4,8 : dp sp - -",
         "v": "4,16,4,8 : dp sp - -"}, {}, ATTEND, "dp - - -")
program("attention: one new token, cache on the heads", DP_TP,
        {"q": "4,1,4,8 : dp - tp -", "k": "4,16,4,8 : dp - tp -",
         "v": "4,16,4,8 : dp - tp -"}, {}, ATTEND, "dp - tp -")
HEADS = """q = einsum x wq equation=bse,ehd->bshd
           k = einsum x wk equation=bse,ehd->bshd
           v = einsum x wv equation=bse,ehd->bshd
           """ + CAUSAL + """
           y = einsum o wo equation=bqhd,hde->bqe"""


def projected(name, mesh, x, w, wo, out):
    program("attention: " + name, mesh, {"x": "4,8,16 : " + x},
            {"wq": "16,4,8 : " + w, "wk": "16,4,8 : " + w,
             "wv": "16,4,8 : " + w, "wo": "4,8,16 : " + wo}, HEADS, out)


projected("with projections, Megatron", DP_TP4, "dp - -", "- tp -", "tp - -",
          "dp - -")
projected("with projections, FSDP", FSDP_TP, "fsdp - -", "fsdp - -",
          "- - fsdp", "fsdp - -")
projected("with projections, FSDP and Megatron", FSDP_TP, "fsdp - -",
          "fsdp tp -", "tp - fsdp", "fsdp - -")
program("attention: fused projection, reshaped and cut", DP_TP4,
        {"x": "4,8,16 : dp - -"},
        {"wqkv": "16,96 : - tp", "wo": "32,16 : tp -"},
        """a = einsum x wqkv equation=bse,ef->bsf
           l m n = split a dim=-1 sizes=32,32,32
           q = reshape l shape=4,8,4,8
           k = reshape m shape=4,8,4,8
           v = reshape n shape=4,8,4,8
           """ + ATTEND + """
           c = reshape o shape=4,8,32
           y = einsum c wo equation=bse,ef->bsf""", "dp - -")
program("attention: projections reshaped to heads", DP_TP4,
        {"x": "4,8,16 : dp - -"},
        {"wq": "16,32 : - tp", "wk": "16,32 : - tp", "wv": "16,32 : - tp",
         "wo": "32,16 : tp -"},
        """l = einsum x wq equation=bse,ef->bsf
           m = einsum x wk equation=bse,ef->bsf
           n = einsum x wv equation=bse,ef->bsf
           q = reshape l shape=4,8,4,8
           k = reshape m shape=4,8,4,8
           v = reshape n shape=4,8,4,8
           """ + ATTEND + """
           c = reshape o shape=4,8,32
           y = einsum c wo equation=bse,ef->bsf""", "dp - -")

RMS = "y = rms_norm x w epsilon=0.001"
LAYER = "y = layer_norm x w b epsilon=0.001"


def norm(name, mesh, x, w, out=None, op=RMS):
    weights = {"w": "32 : " + w}
    if op is LAYER:
        weights["b"] = "32 : " + w
    program("norm: " + name, mesh, {"x": "4,8,32 : " + x}, weights, op, out)


norm("rms_norm, batch", "dp=4,tp=2", "dp - -", "-", "dp - -")
norm("rms_norm, features", TP, "- - tp", "tp", "- - tp")
norm("rms_norm, batch and features", DP_TP, "dp - tp", "tp", "dp - tp")
norm("rms_norm, sequence", DP_TP, "dp tp -", "-", "dp tp -")
norm("rms_norm, batch, weight sharded on its axis", "fsdp=4,tp=2", "fsdp - -",
     "fsdp", "fsdp - -")
norm("rms_norm, weight alone sharded", TP, "- - -", "tp", "- - -")
norm("layer_norm, batch", "dp=4,tp=2", "dp - -", "-", "dp - -", LAYER)
norm("layer_norm, features", TP, "- - tp", "tp", "- - tp", LAYER)
norm("layer_norm, batch and features", DP_TP, "dp - tp", "tp", "dp - tp",
     LAYER)

program("softmax: whole dimension", "dp=8", {"x": "8,64 : dp -"}, {},
        "y = softmax x dim=-1", "dp -")
program("softmax: sharded dimension", TP, {"x": "8,64 : - tp"}, {},
        "y = softmax x dim=-1", "- tp")
program("softmax: batch and dimension sharded", DP_TP, {"x": "8,64 : dp tp"},
        {}, "y = softmax x dim=-1", "dp tp")
program("softmax: maximum over a sharded dimension", TP, {"x": "8,64 : - tp"},
        {}, "y = max x dims=1 keep=0", "-")
program("softmax: sum over a sharded dimension", DP_TP, {"x": "8,64 : dp tp"},
        {}, "y = sum x dims=1 keep=0", "dp")
program("softmax: sum over everything", DP_TP, {"x": "8,64 : dp tp"}, {},
        "y = sum x dims=0,1 keep=0", "")
program("softmax: mean over a sharded batch", DP_TP, {"x": "8,64 : dp tp"},
        {}, "y = mean x dims=0 keep=0", "tp")


def embedding(name, mesh, ids, table, out=None):
    program("embedding: " + name, mesh, {"ids": "4,8 ids64 : " + ids},
            {"table": "64,16 : " + table}, "y = embedding table ids", out)


embedding("replicated", "dp=4,tp=2", "dp -", "- -", "dp - -")
embedding("rows sharded", TP, "- -", "tp -", "- - -")
embedding("columns sharded", TP, "- -", "- tp", "- - tp")
embedding("batch and rows", DP_TP, "dp -", "tp -", "dp - -")
embedding("batch and columns", DP_TP, "dp -", "- tp", "dp - tp")
embedding("batch and rows on one axis", "fsdp=8", "- fsdp", "fsdp -",
          "- fsdp -")
embedding("batch and columns on one axis", "fsdp=4,tp=2", "fsdp -", "- fsdp",
          "fsdp - -")
embedding("rows and columns", FSDP_TP, "fsdp -", "tp fsdp", "fsdp - -")
program("embedding: logits, vocabulary sharded", DP_TP,
        {"x": "4,8,16 : dp - -"}, {"table": "64,16 : tp -"},
        "y = einsum x table equation=bse,ve->bsv", "dp - tp")
program("embedding: logits, features of the table sharded", DP_TP,
        {"x": "4,8,16 : dp - -"}, {"table": "64,16 : - tp"},
        "y = einsum x table equation=bse,ve->bsv", "dp - -")
program("embedding: tied, vocabulary sharded", DP_TP,
        {"ids": "4,8 ids64 : dp -"}, {"table": "64,16 : tp -"},
        """x = embedding table ids
           y = tanh x
           l = einsum y table equation=bse,ve->bsv""", "dp - tp")

BLOCK = """n = rms_norm x w1 epsilon=0.001
           h = einsum n up equation=bse,em->bsm
           a = gelu h approximate=none
           d = einsum a down equation=bsm,me->bse
           y = add x d"""


def block(name, mesh, x, up, down, out, ops=BLOCK):
    program("block: " + name, mesh, {"x": "4,8,16 : " + x},
            {"w1": "16 : -", "up": "16,64 : " + up, "down": "64,16 : " + down},
            ops, out)


block("norm and MLP, Megatron", DP_TP4, "dp - -", "- tp", "tp -", "dp - -")
block("norm and MLP, FSDP and Megatron", FSDP_TP, "fsdp - -", "fsdp tp",
      "tp fsdp", "fsdp - -")
block("norm and MLP, sequence parallel", DP_TP4, "dp tp -", "- tp", "tp -",
      "dp tp -", BLOCK.replace("einsum n", "einsum i").replace(
          "h =", "i = constraint n spec=dp.-.-\nh ="))
block("norm and MLP, features sharded", DP_TP4, "dp - tp", "- tp",
      "tp -", "dp - tp")
DECODER = """n = rms_norm x w1 epsilon=0.001
             """ + HEADS.replace("einsum x", "einsum n").replace(
    "y =", "f =") + """
             r = add x f
             c = rms_norm r w2 epsilon=0.001
             g = einsum c gate equation=bse,em->bsm
             u = einsum c up equation=bse,em->bsm
             i = silu g
             a = multiply i u
             e = einsum a down equation=bsm,me->bse
             y = add r e"""


def decoder(name, mesh, x, w, wo, up, down, out):
    program("block: " + name, mesh, {"x": "4,8,16 : " + x},
            {"w1": "16 : -", "w2": "16 : -", "wq": "16,4,8 : " + w,
             "wk": "16,4,8 : " + w, "wv": "16,4,8 : " + w,
             "wo": "4,8,16 : " + wo, "gate": "16,64 : " + up,
             "up": "16,64 : " + up, "down": "64,16 : " + down}, DECODER, out)


decoder("decoder layer, Megatron", DP_TP4, "dp - -", "- tp -", "tp - -",
        "- tp", "tp -", "dp - -")
decoder("decoder layer, FSDP", FSDP_TP, "fsdp - -", "fsdp - -", "- - fsdp",
        "fsdp -", "- fsdp", "fsdp - -")
decoder("decoder layer, FSDP and Megatron", CUBE, "dp+fsdp - -", "fsdp tp -",
        "tp - fsdp", "fsdp tp", "tp fsdp", "dp+fsdp - -")


def reshape(name, mesh, shape, spec, ops, out=None):
    program("reshape: " + name, mesh, {"x": f"{shape} : {spec}"}, {}, ops, out)


reshape("heads put together", DP_TP, "4,8,4,8", "dp - tp -",
        "y = reshape x shape=4,8,32")
reshape("cut into heads", DP_TP, "4,8,32", "dp - tp",
        "y = reshape x shape=4,8,4,8")
reshape("cut into fewer heads than devices", TP, "4,4,32", "- - tp",
        "y = reshape x shape=4,4,4,8")
reshape("batch and sequence put together, batch sharded", "dp=4,tp=2",
        "4,8,16", "dp - -", "y = reshape x shape=32,16", "dp -")
reshape("batch and sequence put together, sequence sharded", "sp=8",
        "4,8,16", "- sp -", "y = reshape x shape=32,16", "sp -")
reshape("batch and sequence put together, both sharded", "dp=4,sp=2", "4,8,16",
        "dp sp -", "y = reshape x shape=32,16")
reshape("transposed", DP_TP, "16,32", "dp tp", "y = transpose x order=1,0",
        "tp dp")
reshape("transposed, spec kept", DP_TP, "16,32", "dp tp",
        "y = transpose x order=1,0", "dp tp")
reshape("cut along the sharded dimension", TP, "8,64", "- tp",
        "y = slice x dim=1 begin=0 end=32", "- tp")
reshape("cut along a whole dimension", TP, "8,64", "tp -",
        "y = slice x dim=1 begin=16 end=48", "tp -")
program("reshape: put together along the sharded dimension", TP,
        {"x": "8,16 : - tp", "y": "8,16 : - tp"}, {},
        "z = concatenate x y dim=1", "- tp")
program("reshape: put together along a whole dimension", TP,
        {"x": "8,16 : tp -", "y": "8,16 : tp -"}, {},
        "z = concatenate x y dim=1", "tp -")
program("reshape: sum of two layouts", DP_TP,
        {"x": "8,16 : dp tp", "y": "8,16 : - tp"}, {}, "z = add x y", "dp tp")
program("reshape: sum of a row and a matrix", DP_TP,
        {"x": "8,16 : dp tp", "y": "16 : dp"}, {}, "z = add x y", "dp tp")

EXPERT = """d = einsum mask x equation=gtec,gtm->gecm
            {into}
            h = einsum i up equation=gecm,emf->gecf
            a = silu h
            o = einsum a down equation=gecf,efm->gecm
            {back}
            y = einsum j mask equation=gecm,gtec->gtm"""


def expert(name, mesh, group, weight, inner, out):
    ops = EXPERT.format(into=f"i = constraint d spec={inner}",
                        back=f"j = constraint o spec={group}.-.-.-")
    program("expert: " + name, mesh,
            {"x": f"8,4,8 : {group} - -", "mask": f"8,4,8,2 : {group} - - -"},
            {"up": f"8,8,16 : {weight} - -", "down": f"8,16,8 : {weight} - -"},
            ops, out)


expert("dispatched by all-to-all", "ep=8", "ep", "ep", "-.ep.-.-", "ep - -")
expert("dispatched, groups on dp and ep", "dp=2,ep=4", "dp+ep", "ep",
       "dp.ep.-.-", "dp+ep - -")
expert("weights gathered instead", "ep=8", "ep", "ep", "ep.-.-.-", "ep - -")
program("expert: every expert on every token", "dp=2,ep=4",
        {"x": "8,16 : dp -", "p": "8,8 : dp -"},
        {"up": "8,16,8 : ep - -", "down": "8,8,16 : ep - -"},
        """h = einsum x up equation=td,edf->etf
           a = silu h
           o = einsum a down equation=etf,efd->etd
           y = einsum p o equation=te,etd->td""", "dp -")
program("expert: router", "dp=2,ep=4", {"x": "8,16 : dp -"},
        {"w": "16,8 : - ep"},
        """s = einsum x w equation=td,de->te
           p = softmax s dim=-1""", "dp -")


def layout(mesh, before, after, shape="16,16"):
    program(f"layout: {before} to {after}, {mesh}", mesh,
            {"x": f"{shape} : {before}"}, {},
            f"y = constraint x spec={after.replace(' ', '.')}", after)


for before, after in (("- -", "tp -"), ("tp -", "- -"), ("- tp", "- -"),
                      ("tp -", "- tp"), ("- tp", "tp -")):
    layout(TP, before, after)
for before, after in (
        ("dp -", "tp -"), ("dp -", "- tp"), ("dp -", "dp tp"),
        ("dp -", "dp+tp -"), ("tp -", "dp+tp -"), ("dp tp", "- -"),
        ("dp tp", "dp -"), ("dp tp", "- tp"), ("dp tp", "tp dp"),
        ("dp tp", "dp+tp -"), ("dp tp", "tp+dp -"), ("dp+tp -", "dp -"),
        ("dp+tp -", "tp -"), ("dp+tp -", "- -"), ("dp+tp -", "tp+dp -"),
        ("dp+tp -", "dp tp"), ("dp+tp -", "tp dp"), ("dp+tp -", "- dp+tp"),
        ("dp+tp -", "- tp+dp"), ("dp+tp -", "- dp")):
    layout(DP_TP, before, after)
for before, after in (("dp+fsdp tp", "dp fsdp+tp"), ("dp fsdp", "fsdp dp"),
                      ("dp+fsdp+tp -", "tp dp+fsdp"),
                      ("dp fsdp+tp", "fsdp dp"),
                      ("dp+fsdp -", "- fsdp+tp")):
    layout(CUBE, before, after)
layout(CUBE, "dp fsdp tp", "tp dp fsdp", "4,8,8")
layout(CUBE, "dp fsdp tp", "dp tp fsdp", "4,8,8")
