package mqtt

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

var someRound = numbering{run: [6]byte{1, 2, 3, 4, 5, 6}, round: 7}

func TestNotification(t *testing.T) {
	now := time.Date(2026, 11, 22, 20, 0, 0, 0, time.UTC)
	text := someRound.notify(4711, 3, "https://capsule.example/ssh/jobs", now)
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	const uuid = "01020304-0506-4007-8000-000000001267"
	meta, _ := got["metadata"].(map[string]any)
	if got["type"] != "data" || got["directive"] != "foreman" || got["version"] != 1.0 || got["content"] != "https://capsule.example/ssh/jobs/"+uuid ||
		meta["event"] != "start" || meta["job_uuid"] != uuid || meta["return_url"] != "https://capsule.example/ssh/jobs/"+uuid+"/update" {
		t.Errorf("%s", text)
	}
	if job, attempt, ok := someRound.read(text); !ok || job != 4711 || attempt != 3 {
		t.Errorf("%d %d %t", job, attempt, ok)
	}
	other := someRound
	other.round++
	for name, foreign := range map[string]string{
		"another round":   string(other.notify(1, 0, "", now)),
		"a cancellation":  strings.Replace(string(text), `"start"`, `"cancel"`, 1),
		"another worker":  strings.Replace(string(text), `"foreman"`, `"insights"`, 1),
		"nothing":         "",
		"no JSON":         "hello",
		"another's job":   strings.ReplaceAll(string(text), "-4007-", "-4999-"),
		"two jobs":        strings.Replace(string(text), uuid, "01020304-0506-4007-8000-000000001268", -1),
		"upper case":      strings.ReplaceAll(string(text), uuid, "01020304-0506-4007-8000-00000000126F"),
		"a longer number": strings.ReplaceAll(string(text), "000000001267", "0000000001267"),
	} {
		if job, attempt, ok := someRound.read([]byte(foreign)); ok {
			t.Errorf("%s: %d %d", name, job, attempt)
		}
	}
}

func TestReport(t *testing.T) {
	now := time.Date(2026, 11, 22, 20, 0, 0, 5_000_000, time.UTC)
	if text := string(reportOf(now, true)); text != `{"version":"1","updates":[{"timestamp":"2026-11-22T20:00:00.005Z","type":"exit","exit_code":0}]}` {
		t.Error(text)
	}
	var r report
	if err := json.Unmarshal(reportOf(now, false), &r); err != nil || r.Version != "1" || len(r.Updates) != 1 || len(r.Updates[0].Content) != outputBytes || r.Updates[0].Stream != "stdout" || r.Updates[0].ExitCode != nil {
		t.Errorf("%+v %v", r, err)
	}
}

// FuzzRead tests that any message that counts as a notification has a job number of this round.
func FuzzRead(f *testing.F) {
	f.Add(someRound.notify(5, 1, "http://localhost/jobs", time.Unix(0, 0)))
	f.Add([]byte(`{"directive":"foreman","metadata":{"event":"start","job_uuid":"01020304-0506-4007-8000-ffffffffffff"},"message_id":"01020304-0506-4007-bfff-ffffffffffff"}`))
	f.Add([]byte(`{"metadata":5}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		job, attempt, ok := someRound.read(text)
		if ok && (job < 0 || attempt < 0 || attempt > 0x3fff || !strings.Contains(string(someRound.notify(job, attempt, "", time.Unix(0, 0))), someRound.uuid(job, attempt))) {
			t.Errorf("%d %d of %s", job, attempt, text)
		}
	})
}
