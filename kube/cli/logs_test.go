package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	hostcli "fettle.dev/fettle/internal/cli"
	"fettle.dev/fettle/internal/testkit/accesslog"
	"fettle.dev/fettle/internal/ui"
)

// logsRig is a cluster with a volume, which is the working directory of the test and of the pods.
type logsRig struct{ *podAPI }

func newLogsRig(t *testing.T, modes ...any) *logsRig {
	t.Chdir(t.TempDir())
	r := &logsRig{newPodAPI(t)}
	if modes == nil {
		modes = []any{"ReadWriteMany"}
	}
	r.put("persistentvolumeclaims", map[string]any{"metadata": map[string]any{"name": "web", "namespace": "shop"}, "status": map[string]any{"phase": "Bound", "accessModes": modes}})
	return r
}

// accessLog returns a generated log.
func accessLog(t *testing.T, format string, lines int, seed uint64) []byte {
	t.Helper()
	f, err := accesslog.Find(format)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := f.Write(&b, lines, seed); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func write(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// read analyzes logs in pods.
func (r *logsRig) read(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	return run(t, append([]string{"logs", "--server", r.URL, "--namespace", "shop", "--image", "fettle:1", "--claim", "web"}, args...)...)
}

// messagesOf matches what differs between two calls: messages in JSON and YAML, which are last.
var messagesOf = regexp.MustCompile(`(?s)"?messages"?:.*`)

// one analyzes logs by one process.
func one(t *testing.T, args ...string) string {
	t.Helper()
	var out, said bytes.Buffer
	if code := hostcli.Main("test", append([]string{"logs"}, args...), &out, &said); code != ui.Done {
		t.Fatalf("exit code %d: %s", code, &said)
	}
	return messagesOf.ReplaceAllString(out.String(), "")
}

// TestLogs tests that the answer of several pods is that of one process, byte for byte, in each
// form, for plain and compressed logs of several formats, and that nothing is left.
func TestLogs(t *testing.T) {
	r := newLogsRig(t)
	write(t, "access.log", append(accessLog(t, "haproxy", 8000, 1), "not a request\n"...))
	write(t, "access.log.1", accessLog(t, "haproxy", 5000, 2))
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(accessLog(t, "haproxy", 5000, 3))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, "access.log.2.gz", packed.Bytes())
	write(t, "error.log", []byte("no requests here\nnor here\n"))
	write(t, "caddy.log", accessLog(t, "caddy", 3000, 4))
	for _, c := range []struct{ pods, args string }{
		{"8", ". --output json"},
		{"3", "access.log --output csv --top 0"},
		{"5", "access.log access.log.1 access.log.2.gz --output openmetrics --by path --by status,requestor --slowest 9"},
		{"2", "caddy.log --output yaml --paths auto --by route"},
		{"4", "access.log caddy.log --output json --where status>=400 --no-percentiles"},
		{"1", "access.log.2.gz --output csv"},
		{"8", "access.log.2.gz --output csv"},
	} {
		words := strings.Fields(c.args)
		want := one(t, words...)
		code, out, said := r.read(t, append(words, "--pods", c.pods)...)
		if got := messagesOf.ReplaceAllString(out, ""); code != ui.Done || got != want || len(want) < 1000 {
			t.Errorf("%s by %s pods: exit code %d, %d bytes, want %d: %s", c.args, c.pods, code, len(got), len(want), said)
		}
		if left := r.left(); left != nil {
			t.Errorf("left: %v", left)
		}
		if strings.HasPrefix(c.args, ". ") && !strings.Contains(said, "ignored, because not request logs: error.log") {
			t.Errorf("error.log is not named: %s", said)
		}
	}
	// A damaged log counts up to the damage, and is named.
	write(t, "cut.gz", packed.Bytes()[:packed.Len()/2])
	var whole, errs bytes.Buffer
	words := []string{"logs", "cut.gz", "access.log.1", "--output", "csv", "--top", "0"}
	want := hostcli.Main("test", words, &whole, &errs)
	code, out, said := r.read(t, append(words[1:], "--pods", "3")...)
	if _, message, _ := strings.Cut(errs.String(), "cut.gz: "); code != ui.Failed || code != want || out != whole.String() || len(out) < 1000 || !strings.Contains(said, "cut.gz: "+message) {
		t.Errorf("exit code %d, want %d: %s, want %s", code, want, said, &errs)
	}
	if p := program; !p.Headline(t, "logs", []string{"logs", "--server", r.URL, "--namespace", "shop", "--image", "fettle:1", "--claim", "web", "access.log.1"}, false) {
		t.Error("no result")
	}
	// The table names the call that looks further.
	_, out, _ = r.read(t, "access.log", "--pods", "2")
	if !strings.Contains(out, "kubectl fettle logs --server "+r.URL) || !strings.Contains(out, " --by requestor\n") {
		t.Error(out)
	}
	// The saved result is one for fettle logs merge.
	if code, _, said := r.read(t, "access.log", "--pods", "2", "--save", "all.part"); code != ui.Done {
		t.Fatalf("exit code %d: %s", code, said)
	}
	var merged bytes.Buffer
	if code := hostcli.Main("test", []string{"logs", "merge", "all.part", "--output", "csv"}, &merged, &errs); code != ui.Done || merged.String() != one(t, "access.log", "--output", "csv") {
		t.Errorf("exit code %d: %s", code, &errs)
	}
	code, out, said = r.read(t, "access.log", "--output", "json")
	if code != ui.Done {
		t.Fatalf("exit code %d: %s", code, said)
	}
	valid(t, "logs", []byte(out))
}

// lossy makes the first n pods of an index fail, each with its first part of the result.
func (r *logsRig) lossy(index, n int, state map[string]any) {
	var mu sync.Mutex
	lost := map[string]bool{}
	r.lose = func(pod, line string) bool {
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(pod, fmt.Sprintf("-%d-x", index)) || !strings.HasPrefix(line, `{"part"`) || len(lost) == n && !lost[pod] {
			return false
		}
		lost[pod] = true
		r.mu.Lock()
		defer r.mu.Unlock()
		status := map[string]any{"phase": "Failed", "containerStatuses": []any{map[string]any{"state": map[string]any{"terminated": state}}}}
		r.objects["pods"][pod]["status"] = status
		return true
	}
}

// TestLogsRetried tests that the share of a lost pod is read again and counts once.
func TestLogsRetried(t *testing.T) {
	r := newLogsRig(t)
	write(t, "access.log", accessLog(t, "haproxy", 8000, 1))
	r.lossy(1, 2, map[string]any{"reason": "Error", "exitCode": 137})
	code, out, said := r.read(t, "access.log", "--pods", "3", "--output", "csv")
	if want := one(t, "access.log", "--output", "csv"); code != ui.Done || out != want {
		t.Errorf("exit code %d: %s", code, said)
	}
	for n := 1; n <= 2; n++ {
		if want := fmt.Sprintf("-1-x%s: the reader on node node1 ended with exit code 137: Error; Kubernetes starts another one for its share (retry %d of 3)", strings.Repeat("x", n-1), n); !strings.Contains(said, want) {
			t.Errorf("%q is not in %s", want, said)
		}
	}
	if r.left() != nil {
		t.Errorf("left: %v", r.left())
	}
	// A pod that ends before the caller has attached to it.
	first := true
	r.lose, r.state = nil, func(i int, status map[string]any) {
		if i == 2 && first {
			first = false
			status["phase"], status["containerStatuses"] = "Failed", []any{map[string]any{"state": map[string]any{"terminated": map[string]any{"reason": "Error", "exitCode": 137}}}}
		}
	}
	code, out, said = r.read(t, "access.log", "--pods", "3", "--output", "csv")
	if want := one(t, "access.log", "--output", "csv"); code != ui.Done || out != want || !strings.Contains(said, "-2-x: the reader on node node0 ended with exit code 137: Error; Kubernetes starts another one for its share (retry 1 of 3)") || r.left() != nil {
		t.Errorf("exit code %d: %s", code, said)
	}
}

// TestLogsLost tests that a share that cannot be read is named, and that no answer is given then.
func TestLogsLost(t *testing.T) {
	for name, c := range map[string]struct {
		state map[string]any
		want  string
	}{
		"killed":        {map[string]any{"reason": "Error", "exitCode": 137}, `share 2 of 3 \(access.log bytes [0-9,]+ to [0-9,]+\) could not be read, so the answer would not be exact: pod fettle-logs-.....-1-xxxx: the reader on node node1 ended with exit code 137: Error`},
		"out of memory": {map[string]any{"reason": "OOMKilled", "exitCode": 137}, `share 2 of 3 \(access.log bytes [0-9,]+ to [0-9,]+\) could not be read, so the answer would not be exact: pod fettle-logs-.....-1-x: the reader on node node1 used more memory than its limit of 1Gi and was killed \(OOMKilled\); raise --memory`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLogsRig(t)
			write(t, "access.log", accessLog(t, "haproxy", 8000, 1))
			r.lossy(1, 9, c.state)
			code, out, said := r.read(t, "access.log", "--pods", "3", "--output", "csv")
			if code != ui.Failed || out != "" || !regexp.MustCompile(c.want).MatchString(said) || r.left() != nil {
				t.Errorf("exit code %d, left %v: %s%s", code, r.left(), out, said)
			}
		})
	}
}

// TestLogsChanged tests that a log that changes while it is read is refused.
func TestLogsChanged(t *testing.T) {
	for want, change := range map[string]func() error{
		"access.log grew by 5 bytes since the analysis began": func() error {
			f, err := os.OpenFile("access.log", os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteString("more\n")
			}
			return err
		},
		"access.log is 7 bytes shorter since the analysis began": func() error {
			st, err := os.Stat("access.log")
			if err == nil {
				err = os.Truncate("access.log", st.Size()-7)
			}
			return err
		},
		"access.log was removed or renamed since the analysis began": func() error { return os.Rename("access.log", "access.log.1") },
	} {
		r := newLogsRig(t)
		write(t, "access.log", accessLog(t, "haproxy", 5000, 1))
		var once sync.Once
		r.lose = func(_, line string) bool {
			if strings.HasPrefix(line, `{"plan"`) {
				once.Do(func() {
					if err := change(); err != nil {
						t.Error(err)
					}
				})
			}
			return false
		}
		code, out, said := r.read(t, "access.log", "--pods", "2")
		if code != ui.Refused || out != "" || !strings.Contains(said, want) || !strings.Contains(said, "name files that are no longer written") || r.left() != nil {
			t.Errorf("exit code %d, want %q, left %v: %s%s", code, want, r.left(), out, said)
		}
	}
}

// TestLogsRefused tests what is refused, with what to do, and whether a Job was created before.
func TestLogsRefused(t *testing.T) {
	r := newLogsRig(t)
	write(t, "access.log", accessLog(t, "haproxy", 1000, 1))
	write(t, "notes.txt", []byte("not a log\n"))
	write(t, "empty.log", nil)
	r.put("persistentvolumeclaims", map[string]any{"metadata": map[string]any{"name": "new", "namespace": "shop"}, "status": map[string]any{"phase": "Pending"}})
	r.put("persistentvolumeclaims", map[string]any{"metadata": map[string]any{"name": "own", "namespace": "shop"}, "status": map[string]any{"phase": "Bound", "accessModes": []any{"ReadWriteOncePod"}}})
	for _, c := range []struct {
		args    string
		code    int
		want    []string
		created bool
	}{
		{"", ui.Usage, []string{"no log given", "access.log"}, false},
		{"-", ui.Usage, []string{"standard input"}, false},
		{"/var/log/access.log", ui.Usage, []string{"want a path from the root of the volume", "./var/log/access.log"}, false},
		{"../access.log", ui.Usage, []string{"is not on the volume"}, false},
		{"access.log --follow", ui.Usage, []string{"--follow does not work in pods", "it must not grow"}, false},
		{"access.log --since-last=f", ui.Usage, []string{"--since-last does not work in pods"}, false},
		{"access.log --config /etc/nginx", ui.Usage, []string{"--config does not work in pods", "--format", "access.log --pods 2\n"}, false},
		{"access.log --format bogus", ui.Usage, []string{"\"bogus\" is not a format", "--format=combined"}, false},
		{"access.log --memory 10", ui.Usage, []string{`--memory "10": want at least 16Mi`, "--memory=256Mi"}, false},
		{"access.log --workers 3", ui.Usage, []string{"--workers does not work in pods", "use more --pods", "access.log --pods 2\n"}, false},
		{"access.log --output html", ui.Usage, []string{"--output html shows durations over time", "--save all.part"}, false},
		{"access.log --claim none", ui.Usage, []string{"PersistentVolumeClaim none does not exist in namespace shop", "kubectl get persistentvolumeclaims --namespace shop"}, false},
		{"access.log --claim new", ui.Failed, []string{"PersistentVolumeClaim new is Pending, not Bound"}, false},
		{"access.log --claim own", ui.Usage, []string{"may be used by one pod at a time (ReadWriteOncePod)", "--pods=1"}, false},
		{"none.log", ui.Usage, []string{"none.log", "paths from the root of the volume"}, true},
		{"notes.txt", ui.Failed, []string{"notes.txt", "--format"}, true},
		{"empty.log", ui.Failed, []string{"empty.log: the log contains no line"}, true},
		{"access.log --by nothing", ui.Usage, []string{"unknown dimension nothing", "has method, "}, true},
		{"access.log --where status=500", ui.Usage, []string{"at column 7 (=): use == to compare"}, false},
		{"access.log --where nothing==5", ui.Usage, []string{"nothing"}, true},
		{"access.log --by path --groups 10", ui.Refused, []string{"by path: more than 10 groups", "--groups=100"}, true},
	} {
		was := r.wrote("POST jobs")
		code, out, said := r.read(t, strings.Fields(c.args+" --pods 2")...)
		if strings.Contains(c.args, "--claim") {
			code, out, said = run(t, append([]string{"logs", "--server", r.URL, "--namespace", "shop", "--image", "fettle:1", "--pods", "2"}, strings.Fields(c.args)...)...)
		}
		for _, want := range c.want {
			if !strings.Contains(said, want) {
				t.Errorf("%q: %q is not in %s", c.args, want, said)
			}
		}
		if code != c.code || out != "" || r.left() != nil || r.wrote("POST jobs") > was != c.created {
			t.Errorf("%q: exit code %d, want %d, a Job was created: %t, left %v: %s%s", c.args, code, c.code, r.wrote("POST jobs") > was, r.left(), out, said)
		}
	}
	r.denied = []string{"get persistentvolumeclaims"}
	if code, _, said := r.read(t, "access.log"); code != ui.Failed || !strings.Contains(said, "nothing was created: rights are missing in namespace shop: get persistentvolumeclaims") {
		t.Errorf("exit code %d: %s", code, said)
	}
}

// TestLogsJob tests the Job: limits, the volume, and the placement on a volume that only one node
// may use.
func TestLogsJob(t *testing.T) {
	code, out, said := run(t, "logs", "access.log", "--claim", "web", "--image", "fettle:1", "--pods", "8", "--memory", "2Gi", "--user-id", "101", "--dry-run")
	if code != ui.Done {
		t.Fatalf("exit code %d: %s", code, said)
	}
	for _, want := range []string{"kind: Job", "completions: 8", "backoffLimitPerIndex: 3", "maxFailedIndexes: 0", "ttlSecondsAfterFinished: 15", "claimName: web", "memory: 2Gi", "value: \"1932735283\"", "runAsUser: 101", "workingDir: /logs", "readOnly: true", "tolerationSeconds: 30", "topologyKey: kubernetes.io/hostname"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	r := newLogsRig(t, "ReadWriteOnce")
	write(t, "access.log", accessLog(t, "haproxy", 1000, 1))
	for _, c := range []struct{ user, want string }{{"", "podAffinity"}, {"web-0", "metadata.name"}} {
		var job string
		r.state = func(int, map[string]any) {
			for _, o := range r.objects["jobs"] {
				text, _ := json.Marshal(o["spec"])
				job = string(text)
			}
		}
		if c.user != "" {
			r.put("pods", map[string]any{"metadata": map[string]any{"name": c.user, "namespace": "shop", "annotations": map[string]any{"batch.kubernetes.io/job-completion-index": "99"}}, "spec": map[string]any{"nodeName": "worker-7", "volumes": []any{map[string]any{"name": "v", "persistentVolumeClaim": map[string]any{"claimName": "web"}}}}, "status": map[string]any{"phase": "Running"}})
		}
		if code, _, said := r.read(t, "access.log"); code != ui.Done || !strings.Contains(job, c.want) || c.user != "" && !strings.Contains(job, "worker-7") || strings.Contains(job, "topologySpread") {
			t.Errorf("exit code %d: %s\n%s", code, said, job)
		}
	}
}
