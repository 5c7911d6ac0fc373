// @ts-check
import { WORDS } from './words.js';
import { byId } from './dom.js';
import { checked, changed } from './data.js';
/** @typedef {import('./data.js').PageData} PageData */
/** @typedef {import('./data.js').ListedStory} ListedStory */

/** The connection to the server of a live page, which sends data repeatedly and executes requests. The token for the server is in the page's own address. */
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
    /** The last complete data: an update replaces some of its fields and adds changes to the timeline. @type {any} */
    let last = {};
    const take = (/** @type {Event} */ event) => {
      // A message about a change stays; a message that the server does not answer is cleared by the next update.
      if (byId('state').textContent === WORDS.reconnecting) this.showState('');
      try {
        const { changes, ...data } = JSON.parse(/** @type {MessageEvent} */ (event).data);
        last = event.type === 'part' ? { ...last, ...data } : data;
        if (changes) last.timeline = changed(last.timeline, changes);
        this.take(checked(last));
      } catch (error) {
        this.showState(WORDS.damaged + String(error));
      }
    };
    source.addEventListener('page', take);
    source.addEventListener('part', take);
    source.addEventListener('failed', (event) => this.showState(/** @type {MessageEvent} */ (event).data));
    source.addEventListener('error', () => {
      this.showState(WORDS.reconnecting);
      // The browser reconnects by itself unless the server has refused the connection.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => this.open(), 2000);
    });
  }
  /** @param {string} text */
  showState(text) {
    const state = byId('state');
    state.textContent = text;
    state.hidden = text === '';
  }
  /** @param {string} path @param {unknown} body @returns {Promise<any>} */
  async post(path, body) {
    const answer = await fetch(this.address(path), { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) this.showState(text);
    return answer.ok && text ? JSON.parse(text) : null;
  }
  /** @param {unknown} action */
  apply(action) {
    this.showState('');
    this.post('/apply', action).catch((error) => this.showState(String(error)));
  }
  /** @param {number} id */
  undo(id) {
    this.post('/undo', { id }).catch((error) => this.showState(String(error)));
  }
  /** The server's answer, or null. @param {string} path @param {Record<string, string>} [more] @returns {Promise<any>} */
  async read(path, more = {}) {
    try {
      const answer = await fetch(this.address(path, more));
      return answer.ok ? await answer.json() : null;
    } catch {
      return null;
    }
  }
  /** @param {string} message @returns {Promise<ListedStory|null>} */
  async story(message) {
    return this.read('/story', { message });
  }
}
