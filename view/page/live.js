// @ts-check
import { WORDS } from './words.js';
import { byId } from './dom.js';
import { checked, changed } from './data.js';
/** @typedef {import('./data.js').PageData} PageData */
/** @typedef {import('./data.js').Told} Told */

/** The server of a live page: it sends the data again and again, and does what is asked. The token is in the page's own address. */
export class Server {
  /** @param {(data: PageData) => void} take */
  constructor(take) {
    this.take = take;
    this.token = new URLSearchParams(location.search).get('token') || '';
    this.open();
  }
  /** @param {string} path @param {Record<string, string>} [more] @returns {string} */
  address(path, more = {}) {
    return `${path}?${new URLSearchParams({ token: this.token, ...more })}`;
  }
  open() {
    const source = new EventSource(this.address('/events'));
    /** What came last: a part changes some of its fields, and the timeline by what is new in it. @type {any} */
    let last = {};
    const take = (/** @type {Event} */ event) => {
      // What was said of a change stays; that nobody answers is over.
      if (byId('state').textContent === WORDS.reconnecting) this.say('');
      try {
        const { changes, ...data } = JSON.parse(/** @type {MessageEvent} */ (event).data);
        last = event.type === 'part' ? { ...last, ...data } : data;
        if (changes) last.timeline = changed(last.timeline, changes);
        this.take(checked(last));
      } catch (error) {
        this.say(WORDS.damaged + String(error));
      }
    };
    source.addEventListener('page', take);
    source.addEventListener('part', take);
    source.addEventListener('failed', (event) => this.say(/** @type {MessageEvent} */ (event).data));
    source.addEventListener('error', () => {
      this.say(WORDS.reconnecting);
      // The browser asks again by itself unless the server refused.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => this.open(), 2000);
    });
  }
  /** @param {string} text */
  say(text) {
    const state = byId('state');
    state.textContent = text;
    state.hidden = text === '';
  }
  /** @param {string} path @param {unknown} body @returns {Promise<any>} */
  async post(path, body) {
    const answer = await fetch(this.address(path), { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) this.say(text);
    return answer.ok && text ? JSON.parse(text) : null;
  }
  /** @param {unknown} action */
  apply(action) {
    this.say('');
    this.post('/apply', action).catch((error) => this.say(String(error)));
  }
  /** @param {number} id */
  undo(id) {
    this.post('/undo', { id }).catch((error) => this.say(String(error)));
  }
  /** What the server answers, or nothing. @param {string} path @param {Record<string, string>} [more] @returns {Promise<any>} */
  async read(path, more = {}) {
    try {
      const answer = await fetch(this.address(path, more));
      return answer.ok ? await answer.json() : null;
    } catch {
      return null;
    }
  }
  /** @param {string} message @returns {Promise<Told|null>} */
  async story(message) {
    return this.read('/story', { message });
  }
}
