// @ts-check
/** Makes an element. The element's content is inserted as text, so names from a run are never parsed as markup.
 * @param {string} name @param {Record<string, string>} [attributes] @param {...(Node|string|null|undefined)} inside @returns {HTMLElement} */
export function make(name, attributes = {}, ...inside) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  for (const part of inside) if (part !== null && part !== undefined) element.append(part);
  return element;
}
/** @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`no element ${id}`);
  return element;
}
/** @param {string} id @returns {HTMLCanvasElement} */
export function canvasOf(id) {
  return /** @type {HTMLCanvasElement} */ (byId(id));
}
/** @param {string} text @param {() => void} act @param {Record<string, string>} [attributes] @returns {HTMLElement} */
export function button(text, act, attributes = {}) {
  const element = make('button', { type: 'button', ...attributes }, text);
  element.addEventListener('click', act);
  return element;
}
/** A table. A cell is a text, or a right-aligned text with its exact value.
 * @param {string} caption @param {string[]} heads @param {(string|{text: string, value?: unknown}|Node)[][]} rows @returns {HTMLTableElement} */
export function table(caption, heads, rows) {
  const isNumber = heads.map((_, n) => rows.length > 0 && rows.every((row) => typeof row[n] === 'object' && !(row[n] instanceof Node)));
  const head = make('tr', {}, ...heads.map((text, n) => make('th', { scope: 'col', ...(isNumber[n] ? { class: 'number' } : {}) }, text)));
  const body = rows.map((row) => make('tr', {}, ...row.map((cell) => {
    if (typeof cell === 'string') return make('td', {}, cell);
    if (cell instanceof Node) return make('td', {}, cell);
    const known = make('td', { class: 'number' }, cell.text);
    if (cell.value !== null && cell.value !== undefined) known.setAttribute('data-value', String(cell.value));
    return known;
  })));
  return /** @type {HTMLTableElement} */ (make('table', {}, make('caption', {}, caption), make('thead', {}, head), make('tbody', {}, ...body)));
}
/** A name shortened to `width` characters: its beginning and its end are kept.
 * @param {string} text @param {number} width @returns {string} */
export function shortened(text, width) {
  if (text.length <= width) return text;
  if (width < 3) return text.slice(0, Math.max(width, 0));
  const end = Math.floor((width - 1) / 2);
  return `${text.slice(0, width - 1 - end)}…${text.slice(text.length - end)}`;
}
/** A name shortened, as by `shortened`, to a width in the context's font. @param {CanvasRenderingContext2D} context @param {string} text @param {number} width @returns {string} */
export function fitting(context, text, width) {
  const whole = context.measureText(text).width;
  let letters = whole <= width ? text.length : Math.floor((text.length * width) / whole);
  let short = shortened(text, letters);
  while (letters > 3 && context.measureText(short).width > width) short = shortened(text, --letters);
  return short;
}
/** The colours of the present theme.
 * @returns {Record<string, string>} */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  /** @type {Record<string, string>} */
  const found = {};
  for (const name of ['paper', 'ink', 'faint', 'line', 'panel', 'accent', 'busy', 'starved', 'blocked', 'ready', 'gap', 'story', 'limit', 'on-busy']) {
    found[name] = style.getPropertyValue(`--${name}`).trim();
  }
  return found;
}
/** Makes a canvas as sharp as the screen and clears it. Sizes are in pixels of the page.
 * @param {HTMLCanvasElement} canvas @returns {{context: CanvasRenderingContext2D, width: number, height: number}} */
export function prepared(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext('2d');
  if (!context) throw new Error('no canvas');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}
/** A cell with a number. @param {number|null|undefined} value @param {(value: number|null|undefined) => string} words */
export function cell(value, words) {
  return { text: value === null || value === undefined ? '' : words(value), value };
}
/** A drawing of its own, as high as asked. @param {number} height @param {string} label @param {(context: CanvasRenderingContext2D, width: number, colour: Record<string, string>) => void} draw @returns {HTMLCanvasElement} */
export function drawing(height, label, draw) {
  const canvas = /** @type {HTMLCanvasElement} */ (make('canvas', { role: 'img', 'aria-label': label }));
  canvas.style.height = `${height}px`;
  requestAnimationFrame(() => {
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext('2d');
    if (!context) return;
    context.scale(ratio, ratio);
    context.font = '11px system-ui, sans-serif';
    draw(context, width, colours());
  });
  return canvas;
}
