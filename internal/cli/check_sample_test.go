package cli

import (
	"bytes"
	"encoding/json"
	"testing"

	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/slow"
	"fettle.dev/fettle/internal/ui"
)

// An audit of the whole machine samples it, other audits only with --sample.
func TestCheckSamples(t *testing.T) {
	const guest = "../../testdata/hosts/debian-guest-overloaded.txt"
	for _, c := range []struct {
		args    []string
		seconds float64 // at least; -1 for no diagnosis, 0 for averages since boot
	}{
		{[]string{"--sample", "100ms"}, 0.1},
		{[]string{"linux", "--sample", "100ms"}, 0.1},
		{[]string{"--sample", "0"}, -1},
		{[]string{"linux"}, -1},
		{[]string{"--root", guest}, 0},
		{[]string{"--root", guest, "--sample", "0"}, -1},
	} {
		var out, said bytes.Buffer
		if code := Main("test", append([]string{"check", "--output", "json"}, c.args...), &out, &said); code != 0 {
			t.Fatalf("%q: exit code %d: %s", c.args, code, &said)
		}
		if err := validate(out.Bytes()); err != nil {
			t.Errorf("%q: %v", c.args, err)
		}
		audit := &findings.Audit{}
		if err := json.Unmarshal(out.Bytes(), audit); err != nil {
			t.Fatal(err)
		}
		if audit.Slow == nil {
			if c.seconds >= 0 {
				t.Errorf("%q: no diagnosis", c.args)
			}
			continue
		}
		if c.seconds < 0 || audit.Slow.Sample.DurationS < c.seconds || (audit.Slow.Sample.DurationS == 0) != (c.seconds == 0) {
			t.Errorf("%q: sampled for %v s", c.args, audit.Slow.Sample.DurationS)
		}
		if c.seconds == 0 && audit.Slow.Reason != "" {
			t.Errorf("%q: the reason is %s, of averages since boot", c.args, audit.Slow.Reason)
		}
	}
}

func TestSampleRefused(t *testing.T) {
	for _, args := range [][]string{{"--sample", "-1s"}, {"--sample", "1ms"}, {"--sample", "1h"}, {"--sample", "x"}, {"--root", "../../testdata/hosts/kvm-guest.txt", "--sample", "2s"}} {
		var out, said bytes.Buffer
		if code := Main("test", append([]string{"check"}, args...), &out, &said); code != ui.Usage {
			t.Errorf("%q: exit code %d: %s", args, code, &said)
		}
	}
}

// Only --sample lets a measured reason change the exit code.
func TestSampleGate(t *testing.T) {
	slowly, well := &slow.Diagnosis{Reason: "cpu"}, &slow.Diagnosis{}
	for _, c := range []struct {
		given  bool
		failOn string
		d      *slow.Diagnosis
		code   int
	}{
		{true, "warn", slowly, ui.GateNotMet},
		{true, "unknown", slowly, ui.GateNotMet},
		{true, "fail", slowly, 0},
		{true, "", slowly, 0},
		{true, "warn", well, 0},
		{true, "warn", nil, 0},
		{false, "warn", slowly, 0},
		{false, "unknown", slowly, 0},
	} {
		o := checkOptions{failOn: c.failOn, sample: sampleOptions{given: c.given}}
		if code := ui.Code(o.gateSample(c.d)); code != c.code {
			t.Errorf("%+v: exit code %d", c, code)
		}
	}
}
