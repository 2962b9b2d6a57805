-- What the stand-in of foreman.ru keeps.
CREATE TABLE activation_keys (name text PRIMARY KEY);
CREATE TABLE hosts (
  id serial PRIMARY KEY,
  name text NOT NULL UNIQUE,
  comment text,
  uuid text UNIQUE,
  facts jsonb,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE packages (
  host_id int NOT NULL REFERENCES hosts ON DELETE CASCADE,
  name text NOT NULL, version text NOT NULL, release text NOT NULL, arch text NOT NULL
);
CREATE INDEX ON packages (host_id);
CREATE TABLE invocations (id serial PRIMARY KEY);
CREATE TABLE jobs (
  uuid text PRIMARY KEY,
  invocation_id int NOT NULL REFERENCES invocations ON DELETE CASCADE,
  host text NOT NULL,
  fetched int NOT NULL DEFAULT 0,
  output text NOT NULL DEFAULT '',
  exit_code int
);
CREATE INDEX ON jobs (invocation_id);
