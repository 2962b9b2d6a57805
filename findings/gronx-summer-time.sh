#!/usr/bin/env bash
# The cron library gronx leaves out what falls into a change of daylight saving
# time: a daily entry on the day in spring, an hourly entry for two hours in
# autumn.
#
# Versions: github.com/adhocore/gronx v1.20.4; systemd 252 for comparison.
# Behavior (Europe/Berlin): asked at noon on 2027-03-27, "30 2 * * *" answers
#   2027-03-29: the 28th, on which 02:30 does not exist, has no run at all. Of
#   cron, cron(8) says that it runs such an entry right after the change;
#   systemd-analyze calendar leaves the day out as gronx does. On 2026-10-25,
#   when 02:00 comes twice, "0 * * * *" goes from 01:00 +0200 to 02:00 +0100:
#   two hours without a run. systemd has that gap, too, but an hour later (from
#   02:00 +0200 to 03:00 +0100), so the two run at different moments.
# Output seen:
#   spring 2027-03-29T02:30:00+02:00
#   autumn 2026-10-25T02:00:00+01:00 after 2h0m0s
set -euo pipefail

dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cat >"$dir/main.go" <<'GO'
package main

import (
	"fmt"
	"time"
	_ "time/tzdata"

	"github.com/adhocore/gronx"
)

func main() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	spring, err := gronx.NextTickAfter("30 2 * * *", time.Date(2027, 3, 27, 12, 0, 0, 0, berlin), false)
	fmt.Println("spring", spring.Format(time.RFC3339), errText(err))
	from := time.Date(2026, 10, 25, 1, 0, 0, 0, berlin)
	autumn, err := gronx.NextTickAfter("0 * * * *", from, false)
	fmt.Println("autumn", autumn.Format(time.RFC3339), "after", autumn.Sub(from), errText(err))
}

func errText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}
GO
cd "$dir"
go mod init calendar >/dev/null 2>&1
go get github.com/adhocore/gronx@v1.20.4 >/dev/null 2>&1
go run . | sed 's/ $//' | tee out
diff - out <<'WANT' || { echo "changed: the lines above differ from what was seen" >&2; exit 1; }
spring 2027-03-29T02:30:00+02:00
autumn 2026-10-25T02:00:00+01:00 after 2h0m0s
WANT
