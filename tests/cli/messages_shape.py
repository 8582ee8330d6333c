# The order of a Messages stream, checked while its message is put together (serving.md S2.11).
import json

DELTAS = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking"),
          "tool_use": ("input_json_delta", "partial_json")}


def joined(stream):
    """The message that a stream makes; every rule of its order is checked on the way."""
    stream = [(name, data) for name, data in stream if name != "ping"]
    assert all(name == data["type"] for name, data in stream), stream
    assert stream[0][0] == "message_start", stream[0]
    assert [name for name, _ in stream[-2:]] == ["message_delta", "message_stop"], stream[-2:]
    message = stream[0][1]["message"]
    assert message["content"] == [] and message["stop_reason"] is None, message
    assert message["usage"]["output_tokens"] == 0, message
    blocks, open_block, pieces, signature = [], None, [], ""
    for name, data in stream[1:-2]:
        if name == "content_block_start":
            assert open_block is None and data["index"] == len(blocks), data
            open_block, pieces, signature = data["content_block"], [], ""
            continue
        assert open_block is not None and data["index"] == len(blocks), data
        if name == "content_block_delta":
            assert not signature, data  # nothing follows it
            if data["delta"]["type"] == "signature_delta":
                assert open_block["type"] == "thinking", data
                signature = data["delta"]["signature"]
                continue
            kind, member = DELTAS[open_block["type"]]
            assert set(data["delta"]) == {"type", member} and data["delta"]["type"] == kind, data
            assert data["delta"][member], data
            pieces.append(data["delta"][member])
            continue
        assert name == "content_block_stop", name
        text = "".join(pieces)
        if open_block["type"] == "tool_use":
            assert open_block["input"] == {}, open_block
            open_block["partial"] = text
            try:
                open_block["input"] = json.loads(text)
            except ValueError:
                open_block["input"] = None  # cut
        else:
            member = open_block["type"]
            assert open_block[member] == "", open_block
            open_block[member] = text
        assert (open_block["type"] == "thinking") == bool(signature), (open_block, signature)
        if signature:
            open_block["signature"] = signature
        blocks.append(open_block)
        open_block = None
    assert open_block is None
    delta = stream[-2][1]
    started = message["usage"]
    for part in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"):
        assert delta["usage"][part] == started[part], (delta, started)
    return dict(message, content=blocks, usage=delta["usage"], **delta["delta"])
