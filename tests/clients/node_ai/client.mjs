// ai with @ai-sdk/openai: openai.tools.computer and openai.tools.shell, in steps.
// The mode has words of: stream, unstored, conversation, previous. The argument and the last line of the output are those of
// tests/clients/world.py.

import { createOpenAI } from '@ai-sdk/openai';
import { generateText, isStepCount, streamText } from 'ai';
import { Desk, url } from './desk.mjs';

const told = JSON.parse(process.argv[2]);
const modes = told.mode.split(' ');
const desk = new Desk(told.body);
const openai = createOpenAI({ baseURL: told.base_url, apiKey: told.key, headers: told.headers });

// its actions are the wire's, but for the case of two names
const wire = ({ scrollX, scrollY, ...rest }) =>
  scrollX === undefined ? rest : { ...rest, scroll_x: scrollX, scroll_y: scrollY };

const tools = {
  computer: openai.tools.computer({
    execute: async ({ actions }) => ({
      output: { type: 'computer_screenshot', imageUrl: url(await desk.act(actions.map(wire))), detail: 'original' },
    }),
  }),
  shell: openai.tools.shell({
    execute: async ({ action }) => ({
      output: action.commands.map((command) => {
        const { stdout, stderr, status } = desk.run(command);
        return { stdout, stderr, outcome: { type: 'exit', exitCode: status } };
      }),
    }),
  }),
};

const options = {};
if (modes.includes('unstored')) options.store = false;
const post = async (path, body) => {
  const headers = { authorization: `Bearer ${told.key}`, 'content-type': 'application/json' };
  const made = await fetch(told.base_url + path, { method: 'POST', headers, body: JSON.stringify(body) });
  return (await made.json()).id;
};
if (modes.includes('conversation')) options.conversation = await post('/conversations', {});
if (modes.includes('previous'))
  options.previousResponseId = await post('/responses', { model: 'body-1', input: 'Thank you.' });
const request = {
  model: openai.responses('body-1'),
  tools,
  prompt: told.task,
  stopWhen: isStepCount(30),
  providerOptions: { openai: options },
  maxRetries: 0,
};

let result;
if (modes.includes('stream')) {
  const errors = [];
  result = streamText({ ...request, onError: ({ error }) => errors.push(error) });
  await result.consumeStream();
  if (errors.length) throw errors[0];
} else result = await generateText(request);
const [final, steps] = [await result.text, await result.steps];
await desk.close();
const shown = steps.flatMap((step) => step.content.map((part) => part.type));
console.log(JSON.stringify({ final, executed: desk.executed, shown }));
