interface Window {
  /** The page, for tests and for a person who inspects it with the browser's tools. */
  thalweg?: import('./main.js').App;
}
