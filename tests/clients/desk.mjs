// A client's own computer and shell, for SDKs on Node: the body over its API, and this process.

import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';

export class Desk {
  // Acts under one lease, taken at the first call; `executed` has all that it did.
  constructor({ url, token }) {
    this.url = url;
    this.token = token;
    this.executed = [];
  }

  // Carry out a batch of actions; the screen after it, as base64 of a PNG.
  async act(actions) {
    this.grant ??= await this.post('/v1/lease/acquire', {
      conversation_id: 'a-clients-own-desk', ttl_ms: 60000, wait_ms: 10000 });
    this.executed.push(...actions.map((action) => action.type));
    const item = { type: 'computer_call', id: 'cu', call_id: 'call', status: 'completed', actions };
    const body = { request_id: `req-${randomUUID()}`, epoch: this.grant.epoch, item };
    const result = await this.post('/v1/computer_call', body);
    if (result.receipts.some((receipt) => receipt.outcome === 'failed'))
      throw new Error(JSON.stringify(result.receipts));
    return result.item.output.image_url.replace('data:image/png;base64,', '');
  }

  // Run a command in this process's folder.
  run(command) {
    this.executed.push(command);
    const { stdout, stderr, status } = spawnSync('bash', ['-c', command], { encoding: 'utf8' });
    return { stdout, stderr, status };
  }

  // Give the body back.
  async close() {
    if (this.grant) await this.post('/v1/lease/release', {});
  }

  async post(path, body) {
    const headers = { authorization: `Bearer ${this.token}`, 'content-type': 'application/json' };
    if (this.grant) headers['bodyd-lease'] = this.grant.lease_token;
    const answer = await fetch(this.url + path, { method: 'POST', headers, body: JSON.stringify(body) });
    const told = await answer.json();
    if (!answer.ok) throw new Error(`${path}: ${JSON.stringify(told)}`);
    return told;
  }
}

export const url = (image) => `data:image/png;base64,${image}`;
