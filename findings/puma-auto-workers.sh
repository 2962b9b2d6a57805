#!/usr/bin/env bash
# Puma 6.6.0 (Debian trixie, puma 6.6.0-4): WEB_CONCURRENCY=auto is a worker for each CPU
# only where no configuration file sets workers. The usual line of Rails applications,
# workers ENV.fetch("WEB_CONCURRENCY") { 2 }, makes it 0 workers (single mode), since
# Puma's DSL calls to_i on "auto"; preloading stays on, for which the environment decides.
#
# Seen on two CPUs: no file: workers=2; with the line: workers=0 preload=true; with the
# line and WEB_CONCURRENCY=3: workers=3.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mmdebstrap --quiet --variant=apt --include=puma,ruby-concurrent --aptopt='APT::Install-Recommends "false"' trixie "$dir/root" >/dev/null 2>&1 ||
	{ echo "the Debian packages cannot be fetched (needs mmdebstrap and root)" >&2; exit 2; }
chroot "$dir/root" dpkg-query -W puma ruby-concurrent
mkdir "$dir/root/srv/app"
echo 'run lambda { |env| [200, {}, []] }' >"$dir/root/srv/app/config.ru"
cat >"$dir/root/srv/app/show.rb" <<'RUBY'
require 'puma'
require 'puma/cli'
o = Puma::CLI.new(['-C', 'puma.rb', 'config.ru']).launcher.options
puts "workers=#{o[:workers]} preload=#{o[:preload_app]}"
RUBY
show() { # CONFIG VALUE
	echo "$1" >"$dir/root/srv/app/puma.rb"
	chroot "$dir/root" env -i PATH=/usr/bin:/bin WEB_CONCURRENCY="$2" sh -c 'cd /srv/app && ruby show.rb'
}
line='workers ENV.fetch("WEB_CONCURRENCY") { 2 }'
bare=$(show '# nothing' auto) auto=$(show "$line" auto) three=$(show "$line" 3)
printf 'no file: %s\nthe line, auto: %s\nthe line, 3: %s\n' "$bare" "$auto" "$three"
[ "$bare" = "workers=$(nproc) preload=$([ "$(nproc)" -gt 1 ] && echo true || echo false)" ] || { echo "auto is not a worker for each CPU" >&2; exit 1; }
[ "${auto%% *}" = workers=0 ] || { echo "the line does not make auto 0 any more" >&2; exit 1; }
[ "${three%% *}" = workers=3 ] || { echo "the line does not take 3" >&2; exit 1; }
