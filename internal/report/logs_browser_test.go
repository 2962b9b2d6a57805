package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/logs"
	"fettle.dev/fettle/internal/testbrowser"
	"fettle.dev/fettle/internal/testroot"
)

// TestLogsNarrow: on a screen of 400 pixels no word of a log's page makes it wider.
func TestLogsNarrow(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser; not in short mode")
	}
	long := "/" + strings.Repeat("segment-without-a-blank", 20)
	some := 0.5
	all := logs.Group{Key: []string{"GET", long}, Count: 10, TotalS: 5, Share: &some, MeanS: &some, DeviationS: &some, MinS: &some, MaxS: &some}
	r := &logs.Report{
		Requests: 10, All: all, WentTo: &all, Logs: []logs.LogRead{{Path: long, Format: long, Why: long, Cut: long}},
		By:      []logs.Grouping{{By: []string{"method", "path"}, Groups: 1, Top: []logs.Group{all}}},
		Unread:  logs.UnreadLines{Lines: 1, Examples: []logs.UnreadLine{{Path: long, Line: 1, Text: long}}},
		Slowest: []logs.SlowLine{{TookS: 1, Line: long}},
	}
	file := filepath.Join(t.TempDir(), "logs.html")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := LogsHTML(out, r); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	b := testbrowser.New(t)
	b.Screen(400, 900, false)
	b.Open("file://" + file)
	if !testroot.Eventually(time.Minute, func() bool {
		return b.Eval(`document.readyState === "complete" && location.pathname.endsWith("logs.html")`) == "true"
	}) {
		t.Fatal("the page does not load")
	}
	if wide := b.Eval(`document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide != "0" {
		t.Errorf("the page is %s pixels wider than the screen", wide)
	}
	if beyond := b.Eval(`[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.closest(".wide, svg")).map(e => e.tagName).join(" ")`); beyond != `""` && beyond != "" {
		t.Errorf("beyond the screen: %s", beyond)
	}
}
