# A stand-in for the parts of Foreman and Katello that the scenarios use: hosts, registration
# with an activation key, and jobs that hosts pull. It runs on Puma and PostgreSQL, with a
# schema of its own (foreman.sql). It renders no pages, checks no rights beyond one password,
# and knows one organization; what it costs says nothing about Foreman.
#
# Environment: MQTT is the port of mosquitto on this machine, to which jobs are published.
require "base64"
require "erb"
require "json"
require "pg"
require "rack"
require "securerandom"
require "socket"
require "time"

# At most as many connections as threads, opened when they are needed.
class Pool
  def initialize(most)
    @idle, @left, @lock = Queue.new, most, Mutex.new
  end

  def with
    db = take
    yield db
  ensure
    @idle << db if db
  end

  private

  def take
    @idle.pop(true)
  rescue ThreadError
    fresh = @lock.synchronize { @left.positive? && @left -= 1 }
    fresh ? PG.connect(dbname: "foreman", host: "/run/postgresql") : @idle.pop
  end
end

# Publishes one message as the smart proxy does: over a connection of its own, with quality 1.
module MQTT
  def self.publish(topic, payload)
    TCPSocket.open("127.0.0.1", Integer(ENV.fetch("MQTT"))) do |s|
      s.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
      id = "proxy-#{SecureRandom.hex(6)}"
      packet(s, 0x10, [4, "MQTT", 4, 2, 60, id.bytesize, id].pack("na*CCnna*"))
      s.read(4).unpack("C*") == [0x20, 2, 0, 0] or raise "mosquitto refuses the connection"
      packet(s, 0x32, [topic.bytesize, topic, 1, payload].pack("na*na*"))
      s.read(4).unpack("C*") == [0x40, 2, 0, 1] or raise "mosquitto did not acknowledge"
      packet(s, 0xE0, "")
    end
  end

  def self.packet(socket, type, body)
    length, left = "".b, body.bytesize
    loop do
      left, digit = left.divmod(128)
      length << (left.positive? ? digit | 128 : digit)
      break if left.zero?
    end
    socket.write([type].pack("C") + length + body)
  end
end

SCRIPT = ERB.new(<<~'END')
  #!/bin/sh
  # Registers this host with <%= organization %>.
  subscription-manager register --force --org='<%= organization %>' --activationkey='<%= keys.join(",") %>' || exit 1
  <% keys.each do |key| %># <%= key %> decides environment and repositories
  <% end %>UUID=$(subscription-manager identity | head -1 | awk '{print $3}')
  curl --fail --silent --show-error --data "uuid=$UUID" '<%= url %>/register' | sh
END

HOST_SCRIPT = ERB.new(<<~'END')
  #!/bin/sh
  # The first configuration of <%= host["name"] %>.
  <% { "name" => host["name"], "uuid" => host["uuid"] }.each do |k, v| %>echo '<%= k %>: <%= v %>'
  <% end %>exit 0
END

# One request.
class Call
  attr_reader :db

  def initialize(env, db)
    @request, @db = Rack::Request.new(env), db
  end

  def param(name) = @request.params[name]

  def json = @json ||= JSON.parse(@request.body.read)

  def answer
    r = @request
    return error(401, "Unable to authenticate user") if r.path.start_with?("/api/") && !admin?
    case [r.request_method, *r.path.delete_prefix("/").split("/")]
    in ["GET", "api", "v2", "status"] then show(result: "ok", version: "stand-in", api_version: 2)
    in ["GET", "api", "v2", "organizations" | "locations" | "job_templates"] then show(total: 1, results: [{ id: 1, name: "Default", label: "Default" }])
    in ["GET", "api", "v2", "hosts"] then hosts
    in ["POST", "api", "v2", "hosts"] then create_host
    in ["GET", "api", "v2", "hosts", id] then found(host(id))
    in ["PUT", "api", "v2", "hosts", id] then update_host(id)
    in ["DELETE", "api", "v2", "hosts", id] then found(db.exec_params("DELETE FROM hosts WHERE id = $1 RETURNING *", [Integer(id)]).first)
    in ["POST", "api", "v2", "job_invocations"] then start_jobs
    in ["GET", "api", "v2", "job_invocations", id] then invocation(id)
    in ["GET", "register"] then text(SCRIPT.result_with_hash(organization: param("organization_id"), keys: keys, url: r.base_url))
    in ["POST", "register"] then register
    in ["GET", "rhsm", "status"] then show(result: true, version: "stand-in", mode: "NORMAL")
    in ["POST", "rhsm", "consumers"] then register_consumer
    in ["GET", "rhsm", "consumers", uuid] then found(consumer(uuid))
    in ["GET", "rhsm", "consumers", uuid, "certificates", "serials"] then show([{ serial: uuid.delete("-").hex % 10**18 }])
    in ["PUT", "rhsm", "consumers", uuid] then upload_facts(uuid)
    in ["PUT", "rhsm", "consumers", uuid, "profiles"] then upload_profiles(uuid)
    in ["GET", "ssh", "jobs", uuid] then fetch_job(uuid)
    in ["POST", "ssh", "jobs", uuid, "update"] then update_job(uuid)
    else error(404, "not found")
    end
  rescue JSON::ParserError, KeyError, ArgumentError => e
    error(400, e.message)
  rescue PG::UniqueViolation
    error(422, "Name has already been taken")
  end

  private

  def admin?
    @request.get_header("HTTP_AUTHORIZATION") == "Basic #{Base64.strict_encode64("admin:changeme")}"
  end

  def show(value, status = 200) = [status, { "Content-Type" => "application/json" }, [JSON.generate(value)]]

  def text(value) = [200, { "Content-Type" => "text/plain" }, [value]]

  def error(status, message) = show({ error: { message: message } }, status)

  def found(row) = row ? show(row) : error(404, "Resource not found by id")

  def keys = param("activation_keys").to_s.split(",")

  def host(id)
    row = db.exec_params("SELECT * FROM hosts WHERE id = $1", [Integer(id)]).first or return
    row.merge("id" => Integer(row["id"]), "facts" => row["facts"] && JSON.parse(row["facts"]))
  end

  # A search is "name ~ PREFIX", or absent.
  def hosts
    rows = named(param("search").to_s)
    show(total: rows.ntuples, results: rows.to_a)
  end

  def named(search)
    prefix = search[/\Aname ~ "?([^"]*)"?\z/, 1].to_s
    db.exec_params("SELECT id, name, uuid, created_at, updated_at FROM hosts WHERE starts_with(name, $1) ORDER BY id", [prefix])
  end

  def create_host
    h = json.fetch("host")
    id = db.exec_params("INSERT INTO hosts (name, comment) VALUES ($1, $2) RETURNING id", [h.fetch("name"), h["comment"]])[0]["id"]
    show(host(id), 201)
  end

  def update_host(id)
    db.exec_params("UPDATE hosts SET comment = $2, updated_at = clock_timestamp() WHERE id = $1", [Integer(id), json.dig("host", "comment")])
    found(host(id))
  end

  def consumer(uuid)
    row = db.exec_params("SELECT uuid, name, facts, created_at AS created, updated_at AS updated FROM hosts WHERE uuid = $1", [uuid]).first or return
    row.merge("facts" => row["facts"] && JSON.parse(row["facts"]), "type" => { "label" => "system" })
  end

  # Creates the host, or subscribes the one that has this name.
  def register_consumer
    known = db.exec_params("SELECT count(*) FROM activation_keys WHERE name = ANY ($1::text[])", [PG::TextEncoder::Array.new.encode(keys)])[0]["count"].to_i
    return error(404, "Couldn't find activation key '#{keys.join(",")}'") if known.zero? || known != keys.size
    uuid = SecureRandom.uuid
    db.exec_params(<<~SQL, [json.fetch("name"), uuid, JSON.generate(json["facts"] || {})])
      INSERT INTO hosts (name, uuid, facts) VALUES ($1, $2, $3)
      ON CONFLICT (name) DO UPDATE SET uuid = excluded.uuid, facts = excluded.facts, updated_at = clock_timestamp()
    SQL
    show(consumer(uuid))
  end

  def upload_facts(uuid)
    changed = db.exec_params("UPDATE hosts SET facts = $2, updated_at = clock_timestamp() WHERE uuid = $1", [uuid, JSON.generate(json.fetch("facts"))])
    changed.cmd_tuples == 1 ? show(content: "Facts successfully updated.") : error(404, "Couldn't find consumer '#{uuid}'")
  end

  # The installed packages replace those of before.
  def upload_profiles(uuid)
    packages = json.filter_map { |p| p["profile"] if p["content_type"] == "rpm" }.flatten(1)
    db.transaction do
      id = db.exec_params("UPDATE hosts SET updated_at = clock_timestamp() WHERE uuid = $1 RETURNING id", [uuid]).first&.fetch("id")
      return error(404, "Couldn't find consumer '#{uuid}'") unless id
      db.exec_params("DELETE FROM packages WHERE host_id = $1", [id])
      db.exec_params(<<~SQL, [id, JSON.generate(packages)])
        INSERT INTO packages SELECT $1, p.* FROM jsonb_to_recordset($2) AS p(name text, version text, release text, arch text)
      SQL
    end
    show(consumer(uuid))
  end

  def register
    row = db.exec_params("UPDATE hosts SET updated_at = clock_timestamp() WHERE uuid = $1 RETURNING name, uuid", [param("uuid").to_s]).first
    row ? text(HOST_SCRIPT.result_with_hash(host: row)) : error(404, "unknown host")
  end

  # A job for each host of the search. Hosts are notified one after the other.
  def start_jobs
    targets = named(json.fetch("job_invocation").fetch("search_query")).to_a
    id = db.exec("INSERT INTO invocations DEFAULT VALUES RETURNING id")[0]["id"]
    jobs = targets.map { |h| [SecureRandom.uuid, h["uuid"] || h["name"]] }
    jobs.each { |uuid, name| db.exec_params("INSERT INTO jobs (uuid, invocation_id, host) VALUES ($1, $2, $3)", [uuid, id, name]) }
    base = @request.base_url
    Thread.new { jobs.each { |uuid, name| notify(base, uuid, name) } }
    show({ id: Integer(id), status_label: "running", total: jobs.size }, 201)
  end

  def notify(base, uuid, name)
    job = "#{base}/ssh/jobs/#{uuid}"
    MQTT.publish("yggdrasil/#{name}/data/in", JSON.generate(
      type: "data", message_id: SecureRandom.uuid, version: 1, sent: Time.now.iso8601, directive: "foreman", content: job,
      metadata: { event: "start", job_uuid: uuid, return_url: "#{job}/update", version: "v1" },
    ))
  end

  def invocation(id)
    n = db.exec_params(<<~SQL, [Integer(id)])[0].transform_values(&:to_i)
      SELECT count(*) AS total, count(*) FILTER (WHERE exit_code = 0) AS succeeded, count(*) FILTER (WHERE exit_code <> 0) AS failed,
        count(*) FILTER (WHERE exit_code IS NULL) AS pending FROM jobs WHERE invocation_id = $1
    SQL
    label = n["pending"].positive? ? "running" : n["succeeded"].positive? && n["failed"].zero? ? "succeeded" : "failed"
    show(n.merge(id: Integer(id), status_label: label))
  end

  def fetch_job(uuid)
    row = db.exec_params("UPDATE jobs SET fetched = fetched + 1 WHERE uuid = $1 RETURNING uuid", [uuid]).first
    row ? text("#!/bin/sh\necho job #{uuid}\n") : error(404, "unknown job")
  end

  def update_job(uuid)
    json.fetch("updates").each do |u|
      db.exec_params("UPDATE jobs SET output = output || $2, exit_code = coalesce($3, exit_code) WHERE uuid = $1", [uuid, u["content"].to_s, u["exit_code"]])
    end
    show({})
  end
end

POOL = Pool.new(Puma.cli_config.options[:max_threads])

run(lambda do |env|
  status, header, body = POOL.with { |db| Call.new(env, db).answer }
  [status, header.merge("Fettle-Stand-In" => "foreman"), body]
end)
