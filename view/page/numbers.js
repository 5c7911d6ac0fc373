// @ts-check
import { WORDS } from './words.js';
/** A number with three digits and the largest unit that leaves at least 1 before it.
 * @param {number} value @param {[number, string][]} units @returns {string} */
function scaled(value, units) {
  if (!Number.isFinite(value)) return '–';
  let chosen = units[0];
  for (const unit of units) if (value / unit[0] >= 0.9995) chosen = unit;
  const number = value / chosen[0];
  const decimals = number >= 99.95 || number === 0 ? 0 : number >= 9.995 ? 1 : 2;
  return `${number.toFixed(decimals)} ${chosen[1]}`;
}
/** @param {number|null|undefined} ns @returns {string} */
export function duration(ns) {
  if (ns === null || ns === undefined) return WORDS.unknown;
  if (ns >= 600e9) {
    const seconds = Math.floor(ns / 1e9);
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
    if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
    return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
  }
  return scaled(Math.max(ns, 0), [[1, 'ns'], [1e3, 'µs'], [1e6, 'ms'], [1e9, 's']]);
}
/** A time with enough digits to distinguish it from another that is one step away. @param {number} ns @param {number} step @returns {string} */
export function moment(ns, step) {
  const units = /** @type {[number, string][]} */ ([[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']]);
  const [unit, word] = units.find(([size]) => Math.max(ns, step) >= size) || units[3];
  const decimals = Math.min(9, Math.max(0, Math.ceil(Math.log10(unit / Math.max(step, 1e-3)) - 1e-9)));
  if (ns < 600e9) return `${(ns / unit).toFixed(decimals)} ${word}`;
  const [hours, minutes] = [Math.floor(ns / 3600e9), Math.floor((ns % 3600e9) / 60e9)];
  return `${hours > 0 ? `${hours} h ` : ''}${minutes} min ${((ns % 60e9) / 1e9).toFixed(decimals)} s`;
}
/** @param {number|null|undefined} perSecond @returns {string} */
export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return WORDS.unknown;
  return scaled(perSecond, [[1, '/s'], [1e3, 'k/s'], [1e6, 'M/s'], [1e9, 'G/s']]);
}
/** @param {number|null|undefined} part @returns {string} */
export function share(part) {
  if (part === null || part === undefined) return WORDS.unknown;
  const percent = part * 100;
  return percent > 0 && percent < 0.05 ? '<0.1 %' : `${percent.toFixed(1)} %`;
}
/** How many processors something keeps busy. @param {number|null|undefined} number @returns {string} */
export function processors(number) {
  if (number === null || number === undefined) return WORDS.unknown;
  return number > 0 && number < 0.005 ? '<0.01' : number.toFixed(2);
}
/** @param {number|null|undefined} number @returns {string} */
export function count(number) {
  if (number === null || number === undefined) return WORDS.unknown;
  return String(number).replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}
