// @openai/agents: a computerTool that is the body, a shellTool, all ways to go on.
// The mode has words of: stream, previous, conversation, session. The argument and the last line of the output are
// those of tests/clients/world.py.

import {
  Agent, MemorySession, OpenAIResponsesModel, Runner, computerTool, setTracingDisabled, shellTool,
} from '@openai/agents';
import OpenAI from 'openai';
import { Desk } from './desk.mjs';

const told = JSON.parse(process.argv[2]);
const modes = told.mode.split(' ');
const desk = new Desk(told.body);
const client = new OpenAI({ baseURL: told.base_url, apiKey: told.key, defaultHeaders: told.headers });
setTracingDisabled(true);

const act = async (action) => void (await desk.act([action]));
const computer = {
  environment: 'ubuntu',
  dimensions: [1280, 800],
  screenshot: () => desk.act([{ type: 'screenshot' }]),
  click: (x, y, button) => act({ type: 'click', x, y, button }),
  doubleClick: (x, y) => act({ type: 'double_click', x, y }),
  scroll: (x, y, scroll_x, scroll_y) => act({ type: 'scroll', x, y, scroll_x, scroll_y }),
  type: (text) => act({ type: 'type', text }),
  wait: () => act({ type: 'wait' }),
  move: (x, y) => act({ type: 'move', x, y }),
  keypress: (keys) => act({ type: 'keypress', keys }),
  drag: (path) => act({ type: 'drag', path: path.map(([x, y]) => ({ x, y })) }),
};
const shell = {
  run: async ({ commands }) => ({
    output: commands.map((command) => {
      const { stdout, stderr, status } = desk.run(command);
      return { stdout, stderr, outcome: { type: 'exit', exitCode: status } };
    }),
  }),
};

const agent = new Agent({
  name: 'tester',
  instructions: 'Use the desktop.',
  model: new OpenAIResponsesModel(client, 'body-1'),
  tools: [computerTool({ computer }), shellTool({ shell })],
});
const how = { maxTurns: 30, stream: modes.includes('stream') };
if (modes.includes('conversation')) how.conversationId = (await client.conversations.create()).id;
if (modes.includes('session')) how.session = new MemorySession();
if (modes.includes('previous')) {
  // as an application does that keeps one id for each of its users
  const before = await client.responses.create({ model: 'body-1', input: 'Thank you.' });
  how.previousResponseId = before.id;
}
const runner = new Runner();
const result = await runner.run(agent, told.task, how);
if (how.stream) {
  for await (const _ of result);
  await result.completed;
}
const thanked = modes.includes('session') ? (await runner.run(agent, 'Thank you.', how)).finalOutput : null;
await desk.close();
const shown = result.newItems.map((item) => item.rawItem.type);
console.log(JSON.stringify({ final: result.finalOutput, executed: desk.executed, shown, thanked }));
