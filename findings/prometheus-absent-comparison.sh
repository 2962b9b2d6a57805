#!/usr/bin/env bash
# Prometheus 2.42 (promtool of Debian's prometheus 2.42.0+ds): absent() gives its result the labels
# of the selector only if the argument is a plain selector. absent(up{job="x"} == 1), the usual
# way to say "no healthy target of this job", has no labels at all, so routes and inhibitions
# that match on the job do not see the alert. absent(up{job="x"}) has the label job="x".
#
# Seen: promtool's test of the second alert with labels {job="x"} passes; the same for the first
# alert fails, and passes with no labels.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
apt-get download -qq prometheus >/dev/null 2>&1 || { echo "the Debian package cannot be fetched" >&2; exit 2; }
dpkg-deb -f prometheus_*.deb Package Version | tr '\n' ' '
echo
dpkg -x prometheus_*.deb root
cat >rules.yaml <<'Y'
groups:
  - name: jobs
    rules:
      - {alert: NoHealthyTarget, expr: 'absent(up{job="x"} == 1)'}
      - {alert: NoTarget, expr: 'absent(up{job="x"})'}
Y
# passes ALERT LABELS: whether promtool expects the alert with these labels.
passes() {
	cat >test.yaml <<Y
rule_files: [rules.yaml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series: [{series: 'up{job="y"}', values: '1 1 1'}]
    alert_rule_test:
      - {eval_time: 2m, alertname: $1, exp_alerts: [{exp_labels: $2}]}
Y
	root/usr/bin/promtool test rules test.yaml >said 2>&1
}
passes NoTarget '{job: x}' || { cat said; echo "absent of a plain selector has no label job any more" >&2; exit 1; }
! passes NoHealthyTarget '{job: x}' || { echo "absent of a comparison has the selector's labels now" >&2; exit 1; }
passes NoHealthyTarget '{}' || { cat said; echo "absent of a comparison has other labels now" >&2; exit 1; }
echo "absent(up{job=\"x\"}): job=x; absent(up{job=\"x\"} == 1): no labels"
