// SPDX-License-Identifier: Apache-2.0
// Architecture files: what they are read as, what is wrong with them, and the
// tensors that follow from one and a config.
#include "model/architecture/architecture.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "io/formats.h"
#include "model/architecture/walk.h"
#include "model/architectures.h"
#include "tests/support/messages.h"
#include "tests/support/read_architecture.h"

namespace shardplan {
namespace {

using testing::architecture_problems;

constexpr const char* kHead = R"(
architecture: a
sizes: {hidden: d, vocab: {key: v, else: 10}, mlp: {is: 4 * hidden}}
counts: {layers: {key: n, least: 0}}
flags: {tied: {key: t, else: false}}
)";

// "name type" per line, of the first class; or the problems.
std::string tensors(const std::string& file, const std::string& config) {
  const auto result = testing::read_architecture_text(file);
  if (result->architecture == nullptr) return testing::messages(result->diags);
  Diagnostics diags;
  const auto document = parse_document(
      std::make_shared<const SourceFile>("config.json", config), diags);
  REQUIRE(document);
  const auto manifest =
      synthesize_manifest(*document, diags, {result->architecture});
  if (!manifest) return testing::messages(diags);
  std::string text;
  for (size_t i = 0; i < manifest->size(); ++i) {
    text += std::string(manifest->name(i)) + " " +
            shape_text(manifest->type(i).shape) + "\n";
  }
  for (const auto& buffer : manifest->buffers()) {
    text += "buffer " + buffer.name + " " + type_text(buffer.type) + "\n";
  }
  return text;
}

std::string steps(const std::string& list, const std::string& more = "") {
  return tensors(kHead + std::string("classes:\n  A:\n") + list,
                 R"({"d": 8, "n": 2)" + more + "}");
}

TEST_CASE("modules have their parameters") {
  CHECK(steps(R"(
    - {linear: a, from: hidden, to: 3}
    - {linear: b, from: hidden, to: mlp, bias: not tied}
    - {linear: c, from: 2, to: 3, stored: in_out, bias: true, weight_name: _w, bias_name: _b}
    - {embedding: d, rows: vocab, columns: hidden}
    - {rms_norm: e, size: 5}
    - {layer_norm: f, size: 5}
    - {layer_norm: g, size: 5, bias: tied}
    - {parameter: h, shape: [1, {per: 2, x: 3, y: 4}]}
    - {buffer: i, shape: [], dtype: i64}
    - {linear: j, from: 1, to: 1, when: tied}
)") == "a.weight [3, 8]\n"
       "b.weight [32, 8]\nb.bias [32]\n"
       "c_w [2, 3]\nc_b [3]\n"
       "d.weight [10, 8]\n"
       "e.weight [5]\n"
       "f.weight [5]\nf.bias [5]\n"
       "g.weight [5]\n"
       "h [1, 14]\n"
       "buffer i i64[]\n");
}

TEST_CASE("steps are repeated, stacked and chosen") {
  CHECK(steps(R"(
    - repeat: layers
      name: x.{i}
      steps:
        - switch:
            - {when: i == 0, steps: [{rms_norm: first, size: 1}]}
            - {steps: [{rms_norm: other, size: i}]}
        - repeat: 2
          index: e
          start: 5
          name: e.{e}
          steps: [{parameter: p, shape: [e + 1], when: e >= 5 + i}]
    - repeat: layers
      stored: stacked
      name: s
      steps: [{linear: up, from: hidden, to: 3, bias: true}]
    - {repeat: layers, name: "{i}y", steps: [{gated_mlp: "", mlp: 2}], when: tied}
)") == "x.0.first.weight [1]\n"
       "x.0.e.5.p [6]\nx.0.e.6.p [7]\n"
       "x.1.other.weight [1]\n"
       "x.1.e.6.p [7]\n"
       "s.up.weight [2, 3, 8]\ns.up.bias [2, 3]\n");
}

TEST_CASE("blocks have arguments, and defaults that the caller computes") {
  const std::string file = std::string(kHead) + R"(
blocks:
  inner:
    takes: {size: null, twice: 2 * size, hidden: hidden}
    steps: [{parameter: p, shape: [size, twice, hidden]}]
  outer: [{inner: in, size: 3}, {inner: "", size: 1, twice: 7, hidden: 5}]
classes:
  A: [{outer: o}, {lm_head: ""}]
)";
  CHECK(tensors(file, R"({"d": 8, "n": 0})") ==
        "o.in.p [3, 6, 8]\no.p [1, 7, 5]\nlm_head.weight [10, 8]\n");
  CHECK(tensors(file, R"({"d": 8, "n": 0, "t": true})") ==
        "o.in.p [3, 6, 8]\no.p [1, 7, 5]\n");
}

TEST_CASE("classes are named by their endings") {
  const std::string file = std::string(kHead) + R"(
class_endings:
  Model: [{parameter: own, shape: [1]}]
  Pair: [{body: left}, {body: right}]
blocks:
  body: [{parameter: p, shape: [hidden]}]
classes:
  A: [ForCausalLM, Model, Pair, ForSequenceClassification]
)";
  CHECK(tensors(file, R"({"d": 8, "n": 0})") ==
        "model.p [8]\nlm_head.weight [10, 8]\n");
  CHECK(tensors(file, R"({"d": 8, "n": 0, "architectures": ["AModel"]})") ==
        "own [1]\n");
  CHECK(tensors(file, R"({"d": 8, "n": 0, "architectures": ["APair"]})") ==
        "left.p [8]\nright.p [8]\n");
  CHECK(tensors(file, R"({"d": 8, "n": 0, "num_labels": 3, "architectures":
                          ["AForSequenceClassification"]})") ==
        "model.p [8]\nscore.weight [3, 8]\n");
}

TEST_CASE("layers whose blocks differ by a default are not alike") {
  const std::string file = std::string(kHead) + R"(
tables:
  wide: {is: i + 2}
blocks:
  inner:
    takes: {size: wide}
    steps: [{parameter: p, shape: [size]}]
classes:
  A: [{repeat: layers, name: "l.{i}", steps: [{inner: ""}]}]
)";
  CHECK(tensors(file, R"({"d": 8, "n": 3})") ==
        "l.0.p [2]\nl.1.p [3]\nl.2.p [4]\n");
}

TEST_CASE("tables have a value per layer, from the config or computed") {
  const std::string file = std::string(kHead) + R"(
tables:
  wide: {key: kinds, values: {a: hidden, b: 2 * i}, else: 'if(i % 2 == 0, 3, 4)'}
classes:
  A: [{repeat: layers, name: "l.{i}", steps: [{rms_norm: n, size: wide}]}]
)";
  CHECK(tensors(file, R"({"d": 8, "n": 3})") ==
        "l.0.n.weight [3]\nl.1.n.weight [4]\nl.2.n.weight [3]\n");
  CHECK(tensors(file, R"({"d": 8, "n": 3, "kinds": ["a", "b", 6]})") ==
        "l.0.n.weight [8]\nl.1.n.weight [2]\nl.2.n.weight [6]\n");
  CHECK(tensors(file, R"({"d": 8, "n": 3, "kinds": ["a", "b"]})") ==
        "SP009 config.json:1:27 `kinds` has 2 items for 3 layers");
  CHECK(tensors(file, R"({"d": 8, "n": 1, "kinds": ["c"]})") ==
        "SP009 config.json:1:27 `kinds` has `c`, which is not supported");
}

TEST_CASE("values come from keys, words, other names and requirements") {
  const std::string file = R"(
architecture: a
sizes: {one: [x, y], two: {is: one + 1}, three: {key: z, if_absent: 1, if_null: 2}}
counts: {layers: n}
flags: {gated: {key: act, values: {gated: true, plain: false}}}
lists: {some: {key: list, else: [1, 2]}}
require: [{that: one < 9, key: y, else: too wide, facts: ["{one} and {layers} layers"]}]
classes:
  A: [{parameter: p, shape: [one, two, three]}, {rms_norm: g, size: 1, when: gated and 1 in some}]
)";
  CHECK(tensors(file, R"({"y": 3, "n": 1, "act": "gated"})") ==
        "p [3, 4, 1]\ng.weight [1]\n");
  CHECK(
      tensors(file, R"({"y": 3, "x": 2, "z": null, "n": 1, "act": "plain"})") ==
      "p [2, 3, 2]\n");
  CHECK(tensors(file, R"({"y": 3, "n": 1, "act": "gated", "list": [5]})") ==
        "p [3, 4, 1]\n");
  CHECK(tensors(file, R"({"y": 3, "n": 1, "act": "swish"})") ==
        "SP009 config.json:1:25 `act` is `swish`, which is not supported");
  CHECK(tensors(file, R"({"y": 10, "n": 1, "act": "plain"})") ==
        "SP009 config.json:1:7 too wide");
  CHECK(tensors(file, R"({"n": true, "act": 1})") ==
        "SP009 config.json:1:1 `x` is missing\n"
        "SP002 config.json:1:7 `n` must be an integer, not true or false\n"
        "SP002 config.json:1:20 `act` must be true or false, not an integer");
}

TEST_CASE("keys that change tensors are read, or refused together") {
  const std::string file = R"(
architecture: a
model_types: [llama]
sizes: {hidden: hidden_size, vocab: vocab_size}
ignored_keys: [num_attention_heads]
classes:
  A: [{embedding: e, rows: vocab, columns: hidden}]
)";
  CHECK(tensors(file, R"({"hidden_size": 8, "vocab_size": 9,
"num_attention_heads": 2, "rms_norm_eps": 0.1, "mlp_bias": false})") ==
        "e.weight [9, 8]\n");
  CHECK(tensors(file, R"({"hidden_size": 8, "vocab_size": 9, "mlp_bias": true,
"intermediate_size": 3})") ==
        "SP009 config.json:1:49 `mlp_bias` and `intermediate_size` are not "
        "supported but change the tensors of the model");
}

TEST_CASE("lists have words, letters, or one integer, and items") {
  const std::string file = R"(
architecture: a
lists: {kinds: {key: k, values: {x: 1, y: 2}, else: [1, 1, 2]}, image: {key: s, else: [4, 5]}}
counts: {layers: {is: length(kinds)}}
tables: {kind: {is: 'kinds[i]'}}
classes:
  A:
    - {parameter: p, shape: ['image[0]', 'image[length(image) - 1]']}
    - {repeat: layers, name: "l.{i}", steps: [{rms_norm: n, size: kind}, {rms_norm: of_two, size: '1 + count(kinds, 2, i)', when: kind == 2}]}
)";
  CHECK(tensors(file, R"({"k": ["y", "x", "y"]})") ==
        "p [4, 5]\nl.0.n.weight [2]\nl.0.of_two.weight [1]\n"
        "l.1.n.weight [1]\nl.2.n.weight [2]\nl.2.of_two.weight [2]\n");
  CHECK(tensors(file, R"({"k": "yx", "s": 7})") ==
        "p [7, 7]\nl.0.n.weight [2]\nl.0.of_two.weight [1]\n"
        "l.1.n.weight [1]\n");
  CHECK(tensors(file, R"({"k": [2], "s": [3, 4, 5]})") ==
        "p [3, 5]\nl.0.n.weight [2]\nl.0.of_two.weight [1]\n");
  CHECK(tensors(file, R"({"s": []})") ==
        "SP009 config.json:1:1 `image[0]` of architecture `a` has no value: "
        "index 0 is out of range for a list of 0");
  CHECK(tensors(file, R"({"k": "yz"})") ==
        "SP009 config.json:1:7 `k` has `z`, which is not supported");
  CHECK(tensors(file, R"({"k": ["z"]})") ==
        "SP009 config.json:1:7 `k` has `z`, which is not supported");
}

TEST_CASE("keys may lie in a map of the config") {
  const std::string file = R"(
architecture: a
sizes: {inner: {key: part.inner.n, else: 2}, outer: {key: part.m, if_null: 3}}
classes:
  A: [{parameter: p, shape: [inner, outer]}]
)";
  CHECK(tensors(file, R"({"part": {"inner": {"n": 5}, "m": 4}})") ==
        "p [5, 4]\n");
  CHECK(tensors(file, R"({"part": {"m": null}})") == "p [2, 3]\n");
  CHECK(tensors(file, R"({"part.m": 6})") == "p [2, 6]\n");
  CHECK(tensors(file, R"({"part": {"m": 0}})") ==
        "SP009 config.json:1:16 `part.m` is 0");
  CHECK(tensors(file, R"({"part": {"inner": 1, "m": 4}})") ==
        "SP002 config.json:1:20 `part.inner` must be a map, not an integer");
  CHECK(tensors(file, R"({"part": null})") ==
        "SP009 config.json:1:1 `part.m` is missing");
}

TEST_CASE("a size that two names of a key say differently is refused") {
  const std::string file = R"(
architecture: a
model_types: [gpt2]
sizes: {hidden: n_embd}
classes:
  A: [{rms_norm: n, size: hidden}]
)";
  CHECK(tensors(file, R"({"n_embd": 8, "hidden_size": 8})") ==
        "n.weight [8]\n");
  CHECK(tensors(file, R"({"hidden_size": 9})") == "n.weight [9]\n");
  CHECK(tensors(file, R"({"hidden_size": 9, "n_embd": 8})") ==
        "SP009 config.json:1:30 `n_embd` and `hidden_size` name the same value "
        "but differ");
}

TEST_CASE("activations with parameters are refused where nothing reads them") {
  const std::string file = R"(
architecture: a
classes:
  A: [{rms_norm: n, size: 1}]
)";
  CHECK(tensors(file, R"({"hidden_act": "silu"})") == "n.weight [1]\n");
  CHECK(tensors(file, R"({"hidden_act": "xielu"})") ==
        "SP009 config.json:1:16 `hidden_act` is `xielu`, an activation with "
        "its own parameters");
  CHECK(tensors("texts: {act: hidden_act}\n" + file.substr(1),
                R"({"hidden_act": "prelu"})") == "n.weight [1]\n");
}

TEST_CASE("a map of layers says what some of them have") {
  const std::string file = R"x(
architecture: a
counts: {layers: n}
tables:
  full: {is: i == 2}
  width: {key: per_layer_config, entry: head_dim, if_absent: "if(full, 9, 4)", else: 4}
blocks:
  body:
    - {repeat: layers, name: "l.{i}", steps: [{parameter: p, shape: [width]}]}
classes:
  A: [{body: ""}]
)x";
  const auto widths = [&](const std::string& map) {
    return tensors(file, std::string(R"({"n": 3)") +
                             (map.empty() ? "" : ", \"per_layer_config\": ") +
                             map + "}");
  };
  CHECK(widths("") == "l.0.p [4]\nl.1.p [4]\nl.2.p [9]\n");
  CHECK(widths("{}") == "l.0.p [4]\nl.1.p [4]\nl.2.p [4]\n");
  CHECK(widths("null") == widths("{}"));
  CHECK(widths(R"({"01": {"head_dim": 7}})") ==
        "l.0.p [4]\nl.1.p [7]\nl.2.p [4]\n");
  CHECK(widths(R"({"3": {"head_dim": 7}})")
            .find("`3` that is not a layer, or not a map") !=
        std::string::npos);
  CHECK(widths(R"({"1": 7})").find("that is not a layer, or not a map") !=
        std::string::npos);
  CHECK(widths(R"({"1": {"head_dim": 0}})").find("which is not a size") !=
        std::string::npos);
  CHECK(widths(R"({"1": {"head_dim": 7}, "01": {"head_dim": 7}})")
            .find("is given twice") != std::string::npos);
  CHECK(
      widths(R"({"1": {"heads": 7}})")
          .find(
              "gives layer `1` a different `heads`, which is not supported") !=
      std::string::npos);
  CHECK(widths("[4, 4, 9]").starts_with("SP002"));
  CHECK(architecture_problems(
            "architecture: a\ntables: {w: {key: k, entry: e}}\nclasses: "
            "{A: []}")
            .find("`entry` is only for a table that gives `else`") !=
        std::string::npos);
}

TEST_CASE("keys that any model may have are not read past") {
  const std::string file = R"(
architecture: a
flags: {tied: tie}
classes:
  A: [{rms_norm: n, size: 1}]
)";
  CHECK(tensors(file, R"({"tie": true, "pruned_heads": {},
"torchscript": false, "per_layer_config": {}})") == "n.weight [1]\n");
  CHECK(tensors(file, R"({"tie": true, "pruned_heads": {"0": [1]}})")
            .starts_with(
                "SP009 config.json:1:31 pruned heads are not supported"));
  CHECK(tensors(file, R"({"tie": true, "torchscript": true})")
            .starts_with("SP009 config.json:1:30 `torchscript` is true"));
  CHECK(tensors(file, R"({"tie": false, "torchscript": true})") ==
        "n.weight [1]\n");
  CHECK(tensors(file, R"({"tie": true, "per_layer_config": {"0": {"x": 1}}})")
            .find("gives layer `0` a different `x`") != std::string::npos);
}

TEST_CASE("requirements with a name are replaced, or dropped") {
  const std::string head = R"(
architecture: b
like: llama
)";
  const std::string tail = R"(
classes:
  B: [{rms_norm: n, size: head_dim}]
)";
  const std::string config = R"({"hidden_size": 14, "num_attention_heads": 2,
"vocab_size": 4, "num_hidden_layers": 1, "intermediate_size": 6,
"attention_bias": false, "mlp_bias": false, "tie_word_embeddings": true})";
  CHECK(tensors(head + tail, config) ==
        "SP009 config.json:1:1 rotary positions need an even head size");
  CHECK(tensors(head + "require: [{drop: rotated}]" + tail, config) ==
        "n.weight [7]\n");
  CHECK(tensors(head +
                    "require: [{name: rotated, that: head_dim == 8, else: "
                    "other}]" +
                    tail,
                config) == "SP009 config.json:1:1 other");
  CHECK(architecture_problems(head + "require: [{drop: rotate}]" + tail) ==
        "SP018 a.yaml:4:18 there is no requirement `rotate`");
  CHECK(
      architecture_problems(head + "require: [{name: x, that: true}]" + tail) ==
      "SP018 a.yaml:4:11 a requirement needs `that` and `else`");
}

TEST_CASE("notes are said with the manifest, where they hold") {
  const auto notes = [](const std::string& list, const std::string& config) {
    const auto result =
        testing::read_architecture_text(kHead + list + "\nclasses:\n  A: []");
    if (result->architecture == nullptr) {
      return testing::messages(result->diags);
    }
    Diagnostics diags;
    const auto document = parse_document(
        std::make_shared<const SourceFile>("config.json", config), diags);
    REQUIRE(document);
    const auto manifest =
        synthesize_manifest(*document, diags, {result->architecture});
    REQUIRE(manifest);
    std::string text;
    for (const std::string& remark : manifest->remarks) text += remark + "\n";
    return text;
  };
  const std::string two =
      "notes: [{note: '{layers} of {hidden}', when: layers > 1}, {note: x}]";
  CHECK(notes(two, R"({"d": 8, "n": 2, "dtype": "float32"})") == "2 of 8\nx\n");
  CHECK(notes(two, R"({"d": 8, "n": 1, "dtype": "float32"})") == "x\n");
  CHECK(notes("notes: [{when: true}]", "{}") ==
        "SP018 a.yaml:6:9 a note needs `note`");
  CHECK(notes("notes: [{note: x, when: layer > 1}]", "{}") ==
        "SP018 a.yaml:6:25 `layer` is not defined here");
}

TEST_CASE("a size may be the number of entries of a map") {
  const std::string file = R"(
architecture: a
sizes: {labels: {key: num_labels, count_of: id2label, else: 2}}
classes:
  A: [{rms_norm: n, size: labels}]
)";
  CHECK(tensors(file, R"({"id2label": {"0": "a", "1": "b", "2": "c"}})") ==
        "n.weight [3]\n");
  CHECK(tensors(file, R"({"id2label": {"0": "a"}, "num_labels": 5})") ==
        "n.weight [5]\n");
  CHECK(tensors(file, R"({"id2label": null})") == "n.weight [2]\n");
}

TEST_CASE("a part may be left out, as a flag says") {
  const std::string file = R"(
architecture: a
sections: {see: {key: vision, architecture: siglip_vision_model, optional: true}}
flags: {sees: {given: vision}}
classes:
  A: [{rms_norm: n, size: 3}, {rms_norm: v, size: see.hidden, when: sees}]
)";
  CHECK(tensors(file, "{}") == "n.weight [3]\n");
  CHECK(tensors(file, R"({"vision": null})") == "n.weight [3]\n");
  CHECK(tensors(file, R"({"vision": {"hidden_size": 24}})") ==
        "n.weight [3]\nv.weight [24]\n");
  // An empty one is there: its values are those of its class.
  CHECK(tensors(file, R"({"vision": {}})") == "n.weight [3]\nv.weight [768]\n");
  // Nothing is left out that a step uses.
  const std::string always = R"(
architecture: a
sections: {see: {key: vision, architecture: siglip_vision_model, optional: true}}
classes:
  A: [{rms_norm: v, size: see.hidden}]
)";
  CHECK(architecture_problems(always).empty());
  CHECK(tensors(always, "{}").find("`vision` is missing") != std::string::npos);
  CHECK(architecture_problems(
            "architecture: a\nsizes: {a: {given: b}}\nclasses:\n  A: []")
            .find("`given` is only for a flag") != std::string::npos);
}

TEST_CASE("an architecture may build on another and have sections") {
  CHECK(tensors(R"(
architecture: b
like: llama
flags: {head_norms: {is: true}}
classes:
  B: [{mixer: a}]
)",
                R"({"hidden_size": 8, "num_attention_heads": 2, "vocab_size": 4,
"num_hidden_layers": 1, "intermediate_size": 6, "attention_bias": false,
"mlp_bias": false, "tie_word_embeddings": true})") ==
        "a.self_attn.q_proj.weight [8, 8]\na.self_attn.k_proj.weight [8, 8]\n"
        "a.self_attn.v_proj.weight [8, 8]\na.self_attn.o_proj.weight [8, 8]\n"
        "a.self_attn.q_norm.weight [4]\na.self_attn.k_norm.weight [4]\n");
  const std::string parts = R"(
architecture: b
sections: {see: {key: vision, architecture: siglip_vision_model}}
classes:
  B: [{parameter: p, shape: [see.hidden, see.patches]}]
)";
  CHECK(
      tensors(
          parts,
          R"({"vision": {"hidden_size": 3, "num_attention_heads": 3, "image_size": 8,
"patch_size": 2, "vision_use_head": false}})") == "p [3, 16]\n");
  CHECK(tensors(parts, R"({"vision": {"model_type": "llama"}})") ==
        "SP009 config.json:1:27 `vision.model_type` is `llama`, which is not "
        "supported here");
  const std::string any = R"(
architecture: b
sections: {part: {key: x, architecture: llama, any: true}}
classes:
  B: [{parameter: p, shape: [part.hidden, part.kv_heads]}]
)";
  CHECK(
      tensors(any, R"({"x": {"model_type": "mistral", "hidden_size": 64}})") ==
      "p [64, 8]\n");
  CHECK(tensors(any, R"({"x": {"hidden_size": 64}})") == "p [64, 32]\n");
  CHECK(tensors(any, R"({"x": {"model_type": "lama"}})") ==
        "SP009 config.json:1:22 `x.model_type` is `lama`, which is not "
        "supported");
  CHECK(tensors(parts, "{}") == "SP009 config.json:1:1 `vision` is missing");
}

TEST_CASE("mistakes of a file are reported with their places") {
  const std::string head = "architecture: a\n";
  const std::pair<std::string, const char*> rows[] = {
      {"[1]", "SP002 a.yaml:1:1 `an architecture` must be a map, not a list"},
      {"classes:\n  A: []", "SP018 a.yaml:1:1 the file has no `architecture`"},
      {head, "SP018 a.yaml:1:1 the architecture has no `classes`"},
      {head + "clases: {}", "SP004 a.yaml:2:1 unknown key `clases`"},
      {head + "like: lama\nclasses: {}",
       "SP018 a.yaml:2:7 there is no architecture `lama`"},
      {head + "sizes: {a: {key: b, is: c}}\nclasses:\n  A: []",
       "SP018 a.yaml:2:9 `a` needs either `key` or `is`, or must be a flag "
       "with `given`"},
      {head + "classes:\n  A: [ForNothing]",
       "SP018 a.yaml:3:7 there is no ending `ForNothing` in `class_endings`"},
      {head + "blocks: {b: {forward: [{require: true, else: no}]}}\n"
              "classes:\n  A: []",
       "SP018 a.yaml:2:23 the last step of `forward` makes no value: `gives` "
       "must name the result"},
      {head + "classes:\n  A: [Model, {linear: q}]",
       "SP018 a.yaml:3:14 an ending of a class must be a string, not a map"},
      {head + "sizes: {a: {is: 3 +}}\nclasses:\n  A: []",
       "SP018 a.yaml:2:17 `3 +` is not a valid expression: unexpected end"},
      {head + "sizes: {a: {is: b}}\nclasses:\n  A: []",
       "SP018 a.yaml:2:17 `b` is not defined here"},
      {head + "classes:\n  A: [{linear: q, to: 1}]",
       "SP018 a.yaml:3:8 `linear` `q` has no `from`"},
      {head + "classes:\n  A: [{liner: q}]",
       "SP018 a.yaml:3:8 there is no module or block `liner`"},
      {head + "classes:\n  A: [{linear: q, to: 1, from: 1, bais: true}]",
       "SP004 a.yaml:3:35 unknown key `bais`"},
      {head + "classes:\n  A: [{gated_mlp: m}]",
       "SP018 a.yaml:3:8 block `gated_mlp` needs `hidden`\n"
       "SP018 a.yaml:3:8 block `gated_mlp` needs `mlp`"},
      {head + "classes:\n  A: [{gated_mlp: m, hidden: 1, mlp: 1, bia: 1}]",
       "SP004 a.yaml:3:46 unknown key `bia`"},
      {head + "classes:\n  A: [{repeat: 2, name: x, steps: []}]",
       "SP018 a.yaml:3:25 the name lacks `{i}`"},
      {head + "classes:\n  A: [{switch: [{steps: []}, {when: true}]}]",
       "SP018 a.yaml:3:17 only the last case may have no `when`"},
      {head + "classes:\n  A: [{section: s}]",
       "SP018 a.yaml:3:8 there is no section `s`"},
      {head + "blocks: {linear: []}\nclasses:\n  A: []",
       "SP018 a.yaml:2:10 `linear` cannot be the name of a block"},
      {head + "classes:\n  A: [{parameter: p, shape: [1], dtype: bf17}]",
       "SP018 a.yaml:3:41 `bf17` is not a dtype"},
      {head + "classes:\n  A: [{parameter: p, shape: 3}]",
       "SP018 a.yaml:3:29 `p` needs a list `shape`"},
  };
  for (const auto& row : rows) {
    const auto& text = row.first;
    const auto& expected = row.second;
    CAPTURE(text);
    CHECK(architecture_problems(text) == expected);
  }
}

TEST_CASE("what grows without bound is refused") {
  CHECK(
      steps("    - {repeat: 100000, name: \"a.{i}\", steps: [{repeat: 100000, "
            "index: e, name: \"b.{e}\", steps: [{rms_norm: n, size: 1}]}]}\n")
          .starts_with("SP009 config.json:1:1 the model has too many tensors"));
  CHECK(
      tensors(std::string(kHead) +
                  "blocks: {a: [{b: x}], b: [{a: y}]}\nclasses:\n  A: [{a: z}]",
              R"({"d": 8, "n": 2})")
          .starts_with("SP009 config.json:1:1 blocks of the architecture nest "
                       "too deeply"));
  CHECK(tensors("architecture: a\nsizes: {x: {is: y}, y: {is: x}}\nclasses:\n"
                "  A: []",
                "{}")
            .starts_with("SP009 config.json:1:1 `x` has no value: `x` depends "
                         "on itself"));
  CHECK(steps("    - {parameter: p, shape: [hidden - 8]}\n")
            .starts_with("SP009 config.json:1:1 `hidden - 8` of architecture "
                         "`a` is 0"));
}

}  // namespace
}  // namespace shardplan
