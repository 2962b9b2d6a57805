#!/usr/bin/env bash
# A time that is not one: ActiveSupport 6.1 gives a subscriber with one argument an Event whose
# time is a reading of the monotonic clock, in seconds since the machine started, not a Time.
# lograge hands that Event to custom_options, so the line { time: event.time }, which many
# applications have from the years of Rails 5, writes "time":2249.64 into each line of the
# log: no date, and after a reboot the same numbers again. A subscriber with five arguments
# still gets Times. (lograge 0.10.0 with Rails 6.1.7.10 under Puma 5.6.5 wrote
# {"method":"GET","path":"/hosts/0",...,"status":200,"duration":2.1,"view":1.82,"time":2249.64023881}.)
#
# Run with Debian 12's ruby-activesupport 2:6.1.7.10+dfsg-1~deb12u4. Output seen:
#   one argument: Float, 2250.13; five arguments: Time
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
packages="ruby-activesupport ruby-concurrent ruby-i18n ruby-tzinfo ruby-zeitwerk ruby3.1 libruby3.1 ruby-minitest rake libyaml-0-2 libgmp10"
apt-get download $packages >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" root; done
dpkg-deb -f ruby-activesupport_*.deb Package Version | tr '\n' ' '; echo

arch=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo x86_64-linux-gnu)
export LD_LIBRARY_PATH=$dir/root/usr/lib/$arch:$dir/root/lib/$arch
export RUBYLIB=$dir/root/usr/lib/ruby/vendor_ruby:$dir/root/usr/share/rubygems-integration/all/gems:$dir/root/usr/lib/ruby/3.1.0:$dir/root/usr/lib/$arch/ruby/3.1.0:$dir/root/usr/lib/$arch/ruby/vendor_ruby/3.1.0
for lib in "$dir"/root/usr/share/rubygems-integration/all/gems/*/lib "$dir"/root/usr/share/rubygems-integration/all/gems/*/lib/*ruby; do RUBYLIB=$RUBYLIB:$lib; done
out=$("$dir/root/usr/bin/ruby3.1" --disable-gems -e '
require "logger"
require "active_support"
require "active_support/notifications"
one = five = nil
ActiveSupport::Notifications.subscribe("process_action.action_controller") { |event| one = event.time }
ActiveSupport::Notifications.subscribe("process_action.action_controller") { |name, started, finished, id, payload| five = started }
ActiveSupport::Notifications.instrument("process_action.action_controller") { }
monotonic = Process.clock_gettime(Process::CLOCK_MONOTONIC)
puts "one argument: #{one.class}, #{(one - monotonic).abs < 60 ? "the monotonic clock" : one}; five arguments: #{five.class}"')
echo "$out"
[[ $out == "one argument: Float, the monotonic clock; five arguments: Time" ]] || { echo "the event's time is something else now"; exit 1; }
