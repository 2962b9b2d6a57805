package packaging

import (
	"slices"
	"strings"
	"testing"
)

func TestUnitNamesTheProgram(t *testing.T) {
	for _, name := range Units {
		text, err := Unit(name, "/opt/fettle/bin/fettle", "")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(text, "ExecStart=/opt/fettle/bin/fettle ") != 1 || strings.Contains(text, "ExecStart="+Program) {
			t.Errorf("%s does not start the program that was named:\n%s", name, text)
		}
		// packaging/man writes section 8.
		if !strings.Contains(text, "\nDocumentation=man:fettle(8)\n") {
			t.Errorf("%s names another page than make man writes:\n%s", name, text)
		}
		if strings.Contains(text, "Alias=") {
			t.Errorf("%s has an alias that nobody asked for", name)
		}
	}
	text, err := Unit("fettle.service", Program, "tuned.service")
	if err != nil || !strings.HasSuffix(text, "WantedBy=multi-user.target\nAlias=tuned.service\n") {
		t.Errorf("alias: %v\n%s", err, text)
	}
	if _, err := Unit("fettle.service", "/opt/my fettle", ""); err == nil {
		t.Error("a path with a space is taken")
	}
}

// TestMetricsUnits: the service writes only where it says, and only an administrator enables the
// timer.
func TestMetricsUnits(t *testing.T) {
	service, err := FS.ReadFile("systemd/fettle-metrics.service")
	if err != nil {
		t.Fatal(err)
	}
	timer, err := FS.ReadFile("systemd/fettle-metrics.timer")
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(Units, "fettle-metrics.service") || strings.Contains(string(service), "[Install]") || !strings.Contains(string(timer), "\nWantedBy=timers.target\n") {
		t.Error("the metrics are enabled by more than the timer")
	}
	const dir = "/var/lib/prometheus/node-exporter"
	for line := range strings.Lines(string(service)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "ExecStart=") && !strings.Contains(line, " --textfile "+dir+"/fettle-") {
			t.Errorf("writes elsewhere: %s", line)
		}
	}
	for _, want := range []string{"ReadWritePaths=" + dir, "ProtectSystem=strict", "ConditionPathIsDirectory=" + dir} {
		if strings.Count(string(service), "\n"+want+"\n") != 1 {
			t.Errorf("no line %s", want)
		}
	}
}
