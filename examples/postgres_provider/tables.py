"""The tables of the database.

An entry is found by the SHA-256 of its key: a B-tree refuses keys above some 2,700 bytes, and a state's keys may be
longer. PostgreSQL computes the digest, from version 12 on.
"""

__all__ = ["CREATE_TABLES"]

CREATE_TABLES = """
CREATE TABLE namespaces (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL UNIQUE,
    generation bigint NOT NULL DEFAULT 0,
    seq bigint NOT NULL DEFAULT 0,
    committed bigint NOT NULL DEFAULT -1,
    winner text NOT NULL DEFAULT '',
    codec text NOT NULL DEFAULT ''
);
CREATE TABLE entries (
    namespace_id bigint NOT NULL,
    digest bytea GENERATED ALWAYS AS (sha256(key)) STORED,
    key bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (namespace_id, digest)
);
CREATE TABLE attempts (
    namespace_id bigint NOT NULL,
    attempt uuid NOT NULL,
    txid bigint NOT NULL,
    base bigint NOT NULL,
    generation bigint NOT NULL,
    seq bigint NOT NULL,
    slices bigint NOT NULL,
    checksum bigint NOT NULL,
    checksum_before bigint NOT NULL,
    sealed boolean NOT NULL,
    PRIMARY KEY (namespace_id, attempt)
);
CREATE TABLE updates (
    namespace_id bigint NOT NULL,
    attempt uuid NOT NULL,
    digest bytea GENERATED ALWAYS AS (sha256(key)) STORED,
    key bytea NOT NULL,
    value bytea,  -- NULL deletes the key
    PRIMARY KEY (namespace_id, attempt, digest)
);
"""
