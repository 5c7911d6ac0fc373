// Starts `thalweg lsp` and hands it the S-Net texts that are open.

const { workspace } = require('vscode');
const { LanguageClient } = require('vscode-languageclient/node');

let client;

function activate() {
  const settings = workspace.getConfiguration('thalweg');
  const libraries = settings.get('boxes').flatMap((library) => ['--boxes', library]);
  const server = { command: settings.get('path'), args: ['lsp', ...libraries] };
  client = new LanguageClient('thalweg', 'Thalweg', server, {
    documentSelector: [{ language: 'snet' }],
    synchronize: { fileEvents: workspace.createFileSystemWatcher('**/*.snet') },
  });
  return client.start();
}

function deactivate() {
  return client?.stop();
}

module.exports = { activate, deactivate };
