// The openai package for Node: its loops, written as its users write them, and its own.
// The mode is one of `loops`. The argument and the last line of the output are those of tests/clients/world.py.

import OpenAI, { ComputerToolset } from 'openai';
import { Desk, url } from './desk.mjs';

const told = JSON.parse(process.argv[2]);
const desk = new Desk(told.body);
const client = new OpenAI({ baseURL: told.base_url, apiKey: told.key, defaultHeaders: told.headers });
const tools = [{ type: 'computer' }, { type: 'shell', environment: { type: 'local' } }];
const asking = { model: 'body-1', tools };
const shown = [];
const kinds = new Set();

const picture = (image) => ({ type: 'computer_screenshot', image_url: url(image), detail: 'original' });

async function answers(response) {
  const outputs = [];
  for (const item of response.output) {
    shown.push(item.type);
    const { call_id } = item;
    if (item.type === 'computer_call') {
      const output = picture(await desk.act(item.actions));
      outputs.push({ type: 'computer_call_output', call_id, output });
    } else if (item.type === 'shell_call') {
      const output = item.action.commands.map((command) => {
        const { stdout, stderr, status } = desk.run(command);
        return { stdout, stderr, outcome: { type: 'exit', exit_code: status } };
      });
      outputs.push({ type: 'shell_call_output', call_id, output });
    }
  }
  return outputs;
}

async function loop(last) {
  let response = await last({ ...asking, input: told.task });
  for (let outputs; (outputs = await answers(response)).length; )
    response = await last({ ...asking, input: outputs, previous_response_id: response.id });
  return response;
}

const loops = {
  create: () => loop((request) => client.responses.create(request)),

  'stream: true': () => loop(async (request) => {
    let last;
    for await (const event of await client.responses.create({ ...request, stream: true })) {
      kinds.add(event.type);
      last = event;
    }
    return last.response;
  }),

  '.stream()': () => loop(async (request) => {
    const stream = client.responses.stream(request);
    for await (const event of stream) kinds.add(event.type);
    return stream.finalResponse();
  }),

  conversation: async () => {
    const { id } = await client.conversations.create();
    let response = await client.responses.create({ ...asking, input: told.task, conversation: id });
    for (let outputs; (outputs = await answers(response)).length; )
      response = await client.responses.create({ ...asking, input: outputs, conversation: id });
    return response;
  },

  ComputerToolset: async () => {
    const act = async (action) => void (await desk.act([action]));
    const driver = { screenshot: async () => picture(await desk.act([{ type: 'screenshot' }])) };
    for (const kind of ['click', 'double_click', 'drag', 'keypress', 'move', 'scroll', 'type', 'wait'])
      driver[kind] = act;
    const request = { model: 'body-1', tools: [{ type: 'computer' }], input: told.task };
    return new ComputerToolset(driver).run(client, request);
  },
};

const final = await loops[told.mode]();
await desk.close();
// streamed Response objects lack output_text
const text = final.output.filter((item) => item.type === 'message').map((item) => item.content[0].text).join('');
console.log(JSON.stringify({ final: text, executed: desk.executed, shown, events: [...kinds].sort() }));
