interface Window {
  /** The page, for tests and for who looks into it with the browser's tools. */
  thalweg?: import('./main.js').App;
}
