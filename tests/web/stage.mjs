// Stands between the page and the server: passes everything on, unless a test plays the server itself.
import http from "node:http";

export class Stage {
  // `upstream`: the URL of the real server.
  static async open(upstream) {
    const stage = new Stage();
    stage.upstream = new URL(upstream);
    stage.reset();
    stage.server = http.createServer((request, response) => stage.handle(request, response));
    await new Promise(resolve => stage.server.listen(0, "127.0.0.1", resolve));
    stage.url = `http://127.0.0.1:${stage.server.address().port}/`;
    return stage;
  }

  reset() {
    this.key = null;      // a key that every request but those of the page needs
    this.down = false;    // connections are cut
    this.plays = [];      // what the next chat requests get instead of the server's answer
    this.change = null;   // changes the body of chat requests on their way
    this.chats = [];      // bodies of the chat requests so far
    this.requests = [];   // every path asked for
  }

  async handle(request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    let body = Buffer.concat(chunks);
    this.requests.push(request.url);
    if (this.down) return request.socket.destroy();
    const isPage = request.url === "/" || request.url.startsWith("/web/");
    if (this.key && !isPage && request.headers.authorization !== "Bearer " + this.key)
      return fail(response, 401, "invalid_api_key", "a valid key is needed");
    if (request.url === "/v1/chat/completions") {
      const asked = JSON.parse(body);
      this.chats.push(asked);
      const play = this.plays.shift();
      if (play) return play(new Answer(response));
      if (this.change) body = Buffer.from(JSON.stringify(this.change(asked)));
    }
    this.pass(request, response, body);
  }

  pass(request, response, body) {
    const {method, url: path} = request;
    const headers = {...request.headers, host: this.upstream.host, "content-length": body.length};
    delete headers.origin;
    const forward = http.request({host: this.upstream.hostname, port: this.upstream.port, method, path, headers}, answer => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    forward.on("error", () => response.destroy());
    response.on("close", () => forward.destroy());
    forward.end(body);
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }
}

export function fail(response, status, code, message, headers = {}) {
  response.writeHead(status, {"Content-Type": "application/json", "x-request-id": "req_staged", ...headers});
  response.end(JSON.stringify({error: {message, type: "invalid_request_error", param: null, code}}));
}

// An event stream in the hands of a test.
class Answer {
  constructor(response) {
    this.response = response;
    this.closed = new Promise(resolve => response.on("close", resolve));
  }
  begin() {
    if (!this.response.headersSent) this.response.writeHead(200, {"Content-Type": "text/event-stream"});
  }
  raw(text) {
    this.begin();
    this.response.write(text);
  }
  event(data) {
    this.raw(`data: ${JSON.stringify(data)}\n\n`);
  }
  delta(delta, finish = null) {
    this.event({choices: [{index: 0, delta, finish_reason: finish}]});
  }
  text(content) {
    this.delta({content});
  }
  end(finish = "stop") {
    this.delta({}, finish);
    this.event({choices: [], usage: {prompt_tokens: 1234, completion_tokens: 56, prompt_tokens_details: {cached_tokens: 1000},
      completion_tokens_details: {reasoning_tokens: 7}}});
    this.raw("data: [DONE]\n\n");
    this.response.end();
  }
  // A whole answer in one go.
  say(text) {
    this.delta({role: "assistant", content: ""});
    this.text(text);
    this.end();
  }
  fail(...error) {
    fail(this.response, ...error);
  }
}
