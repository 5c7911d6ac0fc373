// @ts-check

/** A picture of lanes that is filled point by point, because a browser needs more time for ten thousand rectangles than
 * for the million points that they cover. */
export class Pixels {
  constructor() {
    /** @type {ImageData|null} */
    this.image = null;
    this.points = new Uint32Array(0);
    this.width = 0;
    this.height = 0;
    this.ratio = 1;
    /** Colours as points, by their names. @type {Map<string, number>} */
    this.known = new Map();
    /** For each column, where each state ends in it, counted from the column's top. */
    this.ends = [0, 1, 2, 3].map(() => new Int32Array(0));
  }
  /** Begins an empty picture of this size; sizes and places are in pixels of the page. @param {CanvasRenderingContext2D} context @param {number} width @param {number} height */
  begin(context, width, height) {
    this.ratio = window.devicePixelRatio || 1;
    this.width = Math.max(1, Math.round(width * this.ratio));
    this.height = Math.max(1, Math.round(height * this.ratio));
    if (this.image && this.image.width === this.width && this.image.height === this.height) this.points.fill(0);
    else {
      const image = context.createImageData(this.width, this.height);
      this.image = image;
      this.points = new Uint32Array(image.data.buffer);
      this.ends = [0, 1, 2, 3].map(() => new Int32Array(this.width));
    }
  }
  /** Draws the picture onto a canvas. @param {CanvasRenderingContext2D} context @param {number} x @param {number} y */
  end(context, x, y) {
    if (this.image) context.putImageData(this.image, Math.round(x * this.ratio), Math.round(y * this.ratio));
  }
  /** @param {string} colour as `#rrggbb` @returns {number} */
  point(colour) {
    let known = this.known.get(colour);
    if (known === undefined) {
      const bytes = new Uint8Array([1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)).concat(255));
      [known] = new Uint32Array(bytes.buffer);
      this.known.set(colour, known);
    }
    return known;
  }
  /** The rows of points between two heights that are in the picture. @param {number} y @param {number} height @returns {[number, number]} */
  rows(y, height) {
    return [Math.max(0, Math.round(y * this.ratio)), Math.min(this.height, Math.round((y + height) * this.ratio))];
  }
  /** Draws a lane of rectangles, one after the other; `next` returns the ends and the colour of the n-th.
   * @param {number} y @param {number} height @param {number} count @param {(n: number) => [number, number, number]} next */
  lane(y, height, count, next) {
    const [top, bottom] = this.rows(y, height);
    if (bottom <= top) return;
    const row = top * this.width;
    let [begin, end] = [this.width, 0];
    for (let n = 0; n < count; n++) {
      const [left, right, point] = next(n);
      const first = Math.max(0, Math.floor(left * this.ratio));
      const last = Math.min(this.width, Math.max(first + 1, Math.round(right * this.ratio)));
      if (last <= first) continue;
      this.points.fill(point, row + first, row + last);
      [begin, end] = [Math.min(begin, first), Math.max(end, last)];
    }
    if (end <= begin) return;
    for (let at = top + 1; at < bottom; at++) this.points.copyWithin(at * this.width + begin, row + begin, row + end);
  }
  /** Draws columns from `left` to `right`, each `step` wide; `next` returns the four heights of each, which are stacked one upon the other from below.
   * @param {number} y @param {number} height @param {number} left @param {number} right @param {number} step @param {number[]} points @param {(x: number, heights: number[]) => void} next */
  columns(y, height, left, right, step, points, next) {
    const [top, bottom] = this.rows(y, height);
    const [first, last] = [Math.max(0, Math.round(left * this.ratio)), Math.min(this.width, Math.round(right * this.ratio))];
    if (bottom <= top || last <= first) return;
    const heights = [0, 0, 0, 0];
    const base = Math.round((y + height) * this.ratio);
    for (let x = left, at = first; at < last; x += step) {
      next(x, heights);
      const until = Math.min(last, Math.max(at + 1, Math.round((x + step) * this.ratio)));
      let sum = 0;
      for (let state = 0; state < 4; state++) {
        sum += heights[state];
        this.ends[state].fill(base - Math.round(sum * this.ratio), at, until);
      }
      at = until;
    }
    const [busy, starved, blocked, ready] = this.ends;
    for (let row = top; row < bottom; row++) {
      for (let at = first, place = row * this.width + first; at < last; at++, place++) {
        if (row < ready[at]) continue;
        this.points[place] = row >= busy[at] ? points[0] : row >= starved[at] ? points[1] : row >= blocked[at] ? points[2] : points[3];
      }
    }
  }
}
