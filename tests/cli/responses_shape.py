# The order of a Responses stream, checked while its response is read (serving.md S2.10).


class Checker:
    """Reads a stream of events; every rule of their order is checked on the way."""

    def __init__(self, stream):
        self.events = stream
        self.at = 0

    def take(self, name):
        got, data = self.events[self.at]
        assert got == "response." + name and data["type"] == got, (got, name)
        assert data["sequence_number"] == self.at, data
        self.at += 1
        return data

    def next_name(self):
        return self.events[self.at][0].removeprefix("response.")

    def text(self, kind, member, item, index=None):
        pieces = []
        while self.next_name() == kind + ".delta":
            data = self.take(kind + ".delta")
            assert data["item_id"] == item["id"] and data["delta"], data
            assert index is None or data[index] == 0, data
            pieces.append(data["delta"])
        done = self.take(kind + ".done")
        assert done["item_id"] == item["id"] and done[member] == "".join(pieces), done
        return done[member]

    def part(self, name, index, item):
        data = self.take(name)
        assert data["item_id"] == item["id"] and data[index] == 0, data
        return data["part"]

    def item(self, number):
        added = self.take("output_item.added")
        item = added["item"]
        assert added["output_index"] == number and item["status"] == "in_progress", added
        if item["type"] == "message":
            assert item["content"] == []
            assert self.part("content_part.added", "content_index", item)["text"] == ""
            text = self.text("output_text", "text", item, "content_index")
            assert self.part("content_part.done", "content_index", item)["text"] == text
        elif item["type"] == "reasoning" and self.next_name() == "reasoning_summary_part.added":
            assert self.part("reasoning_summary_part.added", "summary_index", item)["text"] == ""
            text = self.text("reasoning_summary_text", "text", item, "summary_index")
            assert self.part("reasoning_summary_part.done", "summary_index", item)["text"] == text
        elif item["type"] == "reasoning":
            self.text("reasoning_text", "text", item, "content_index")
        elif item["type"] == "custom_tool_call":
            assert item["input"] == ""
            self.text("custom_tool_call_input", "input", item)
        else:
            assert item["type"] == "function_call" and item["arguments"] == "", item
            self.text("function_call_arguments", "arguments", item)
        done = self.take("output_item.done")
        assert done["output_index"] == number and done["item"]["id"] == item["id"], done
        assert done["item"]["type"] == item["type"] and done["item"]["status"] != "in_progress", done
        for member in ("call_id", "name"):
            assert done["item"].get(member) == item.get(member), done
        return done["item"]

    def response(self):
        created = self.take("created")["response"]
        assert created["status"] == "in_progress" and created["output"] == [], created
        assert self.take("in_progress")["response"] == created
        items = []
        while self.next_name() == "output_item.added":
            items.append(self.item(len(items)))
        last = self.next_name()
        assert last in ("completed", "incomplete", "failed"), last
        response = self.take(last)["response"]
        assert self.at == len(self.events)  # nothing follows
        assert response["status"] == last and response["output"] == items, response
        assert response["id"] == created["id"] and response["usage"], response
        return response
