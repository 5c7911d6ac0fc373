// @ts-check
import { WORDS } from './words.js';
import { duration, rate, share, count } from './numbers.js';
import { make, byId, button } from './dom.js';
/** @typedef {import('./main.js').App} App */

/** An action as a command line. @param {any} action @returns {string} */
export function commandOf(action) {
  if (action.set) return `thalweg set ${action.set.setting} ${action.set.value}`;
  return ['thalweg', action.run.command, ...action.run.arguments].join(' ');
}

/** Shows what limits the flow, the evidence, and the suggestion. @param {App} app */
export function showVerdict(app) {
  const report = app.data.report;
  const { verdict, throughput, latency, window: seen, overhead } = report;
  const figure = (/** @type {string} */ name, /** @type {string} */ text, /** @type {any} */ value) =>
    make('div', {}, make('dt', {}, name), make('dd', value === null || value === undefined ? {} : { 'data-value': String(value) }, text));
  const parts = [make('h1', { id: 'verdict-text' }, verdict.text)];
  if (verdict.evidence.length > 0) parts.push(make('ul', {}, ...verdict.evidence.map((/** @type {string} */ text) => make('li', {}, text))));
  if (verdict.suggestion) parts.push(make('p', { id: 'verdict-suggestion' }, `${WORDS.soDo} `, ...marked(`${verdict.suggestion}.`)));
  const figures = [
    figure(WORDS.rate, rate(throughput.entry_per_s), throughput.entry_per_s),
    figure(WORDS.out, rate(throughput.exit_per_s), throughput.exit_per_s),
    figure(WORDS.p99, duration(latency.end_to_end && latency.end_to_end.p99_ns), latency.end_to_end && latency.end_to_end.p99_ns),
    figure(WORDS.lost, count(seen.lost), seen.lost),
    figure(WORDS.cost, share(overhead.share), overhead.share),
    figure(WORDS.seen, duration(seen.duration_ns), seen.duration_ns),
    figure(WORDS.mode, seen.modes.length > 0 ? seen.modes[seen.modes.length - 1].mode : WORDS.unknown, null),
  ];
  const live = app.data.live;
  if (live && live.running) figures.push(figure(WORDS.serving, share(live.cost_share), live.cost_share));
  parts.push(make('dl', { class: 'figures' }, ...figures));
  const actions = verdict.actions.map((/** @type {any} */ action) => actionOf(app, action));
  if (actions.length > 0) parts.push(make('div', { class: 'actions' }, ...actions));
  if (live && live.applied.length > 0) parts.push(make('ul', { id: 'applied' }, ...live.applied.map((/** @type {any} */ change) => changeOf(app, change))));
  byId('verdict').replaceChildren(...parts);
}

/** A text in which what stands between two back quotes is code. @param {string} text @returns {(Node|string)[]} */
function marked(text) {
  return text.split('`').map((part, n) => (n % 2 === 1 ? make('code', {}, part) : part));
}

/** @param {App} app @param {any} action @returns {HTMLElement} */
function actionOf(app, action) {
  const command = commandOf(action);
  const gain = (action.set || action.run).gain;
  const predicted = gain === null || gain === undefined ? '' : ` (${WORDS.predicted} +${share(gain)})`;
  const can = app.server && app.data.live && app.data.live.running && (action.set || action.run.command === 'set');
  const does = can
    ? button(WORDS.apply, () => app.server && app.server.apply(action), { 'aria-label': `${WORDS.apply}: ${command}` })
    : copies(command);
  return make('span', {}, make('code', {}, command), predicted, ' ', does);
}

/** A button that copies a command. @param {string} command @returns {HTMLElement} */
export function copies(command) {
  const element = button(WORDS.copy, () => {
    navigator.clipboard?.writeText(command).then(() => { element.textContent = WORDS.copied; }, () => undefined);
  }, { 'aria-label': `${WORDS.copy}: ${command}` });
  return element;
}

/** @param {App} app @param {any} change @returns {HTMLElement} */
function changeOf(app, change) {
  const undo = change.undone ? WORDS.undone : button(WORDS.undo, () => app.server && app.server.undo(change.id), { 'aria-label': `${WORDS.undo}: ${change.what}` });
  return make('li', {}, make('code', {}, change.what), ` ${change.result} `, undo);
}
