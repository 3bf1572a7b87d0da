"""The tables of a file of memories, and the migrations of older files."""

from __future__ import annotations

APPLICATION = 0x6378626D  # "cxbm", which tells our files from other databases
MIGRATIONS = (  # from each version of the schema to the next; what was released is never changed
    """
    CREATE TABLE workspaces (key INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
        revision INTEGER NOT NULL DEFAULT 0, altered INTEGER NOT NULL DEFAULT 0);
    CREATE TABLE memories (key INTEGER PRIMARY KEY, workspace INTEGER NOT NULL REFERENCES workspaces,
        id TEXT NOT NULL, UNIQUE (workspace, id));
    CREATE TABLE versions (seq INTEGER PRIMARY KEY, workspace INTEGER NOT NULL REFERENCES workspaces,
        memory INTEGER NOT NULL REFERENCES memories ON DELETE CASCADE, version INTEGER NOT NULL,
        content TEXT NOT NULL, kind TEXT NOT NULL, confidence REAL NOT NULL, created TEXT NOT NULL,
        conversation TEXT, user TEXT, until TEXT, metadata TEXT NOT NULL, UNIQUE (memory, version));
    CREATE INDEX versions_of_workspace ON versions (workspace);
    CREATE TABLE relationships (key INTEGER PRIMARY KEY, type TEXT NOT NULL,
        source INTEGER NOT NULL REFERENCES memories ON DELETE CASCADE,
        target INTEGER NOT NULL REFERENCES memories ON DELETE CASCADE, UNIQUE (source, target, type));
    CREATE INDEX relationships_to ON relationships (target);
    CREATE TABLE unscrubbed (since TEXT NOT NULL)
    """,  # unscrubbed has a row while deleted text may be in the file
    """
    ALTER TABLE memories ADD COLUMN type TEXT NOT NULL DEFAULT 'memory';
    CREATE TABLE events (key INTEGER PRIMARY KEY, workspace INTEGER NOT NULL REFERENCES workspaces,
        memory INTEGER NOT NULL REFERENCES memories ON DELETE CASCADE,
        kind TEXT NOT NULL, user TEXT, conversation TEXT, at TEXT NOT NULL, useful INTEGER,
        metadata TEXT NOT NULL);
    CREATE INDEX events_of_user ON events (workspace, kind, user, at);
    CREATE INDEX events_of_conversation ON events (workspace, conversation, at);
    CREATE INDEX events_of_memory ON events (memory)
    """,
    """
    CREATE TABLE all_events (key INTEGER PRIMARY KEY, workspace INTEGER NOT NULL REFERENCES workspaces,
        memory INTEGER REFERENCES memories ON DELETE CASCADE, context TEXT, things TEXT,
        kind TEXT NOT NULL, user TEXT, conversation TEXT, at TEXT NOT NULL, useful INTEGER,
        metadata TEXT NOT NULL, CHECK ((memory IS NULL) = (context IS NOT NULL AND things IS NOT NULL)));
    INSERT INTO all_events SELECT key, workspace, memory, NULL, NULL, kind, user, conversation, at, useful, metadata
        FROM events;
    DROP TABLE events;
    ALTER TABLE all_events RENAME TO events;
    CREATE INDEX events_of_user ON events (workspace, kind, user, at);
    CREATE INDEX events_of_conversation ON events (workspace, conversation, at);
    CREATE INDEX events_of_memory ON events (memory)
    """,  # an event is of a memory, or of a context that had the things whose ids are listed
)
