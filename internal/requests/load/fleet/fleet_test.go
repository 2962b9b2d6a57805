package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestMain lets the test program run as a worker, as a shell command starts one.
func TestMain(m *testing.M) {
	if os.Getenv("FETTLE_TEST_WORKER") != "" {
		if err := Serve(context.Background(), os.Stdin, os.Stdout, invented{}, 0); err != nil {
			_, _ = io.WriteString(os.Stderr, err.Error()+"\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// invented counts one answer for each of its connections.
type invented struct{}

func empty() *engine.Meter {
	return engine.NewMeter([]engine.Stretch{{For: 2 * time.Second}}, time.Second, 1, func(int) bool { return true })
}

func (invented) Prepare(_ context.Context, job []byte) (*Ready, error) {
	if strings.Contains(string(job), "refuse") {
		return nil, errors.New("that is refused")
	}
	return &Ready{}, nil
}

func (invented) Run(ctx context.Context, s Share, to Coordinator) (*Part, error) {
	m := empty()
	for i := range s.Connections {
		m.Add([]engine.Sample{{End: time.Duration(i) * time.Millisecond, Answer: engine.Answer{Status: 200}}})
	}
	switch {
	case s.Seed == 666:
		os.Exit(3) // a worker that is killed
	case s.Seed == 667:
		to.Now(Now{At: 3 * time.Second})
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		select {} // until all of its threads have stopped
	case s.For > time.Minute:
		for ctx.Err() == nil {
			to.Now(Now{AnswerRate: 7})
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	part, err := m.Part()
	return &Part{Counts: Counts{Until: s.For, Connections: s.Connections}, Meter: part}, err
}

func places(t *testing.T, n int) (out []Place) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		out = append(out, Place{Name: string(rune('a' + len(out))), Words: []string{"sh", "-c", "export FETTLE_TEST_WORKER=1; exec " + self}})
	}
	return out
}

func started(t *testing.T, n int) *Fleet {
	t.Helper()
	f, err := Start(t.Context(), places(t, n), "job", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// TestUnionOfParts tests that the counts of several processes are added up, for each number of
// runs.
func TestUnionOfParts(t *testing.T) {
	f := started(t, 3)
	for _, c := range f.Clients {
		if c.Off <= 0 || c.ahead < -c.Off-time.Millisecond || c.ahead > c.Off+time.Millisecond {
			t.Errorf("of the same clock it says %v, off by %v", c.ahead, c.Off)
		}
	}
	off := 20 * time.Millisecond // the clocks are compared to the time that a question takes
	for _, c := range f.Clients {
		off = max(off, c.Off)
	}
	for range 2 {
		begin := f.Begin()
		parts, lost := f.Run(t.Context(), begin, time.Second, []Share{{Connections: 1}, {Connections: 20}, {Connections: 300}}, func(int, Now) {})
		if !slices.Equal(lost, []*Lost{nil, nil, nil}) {
			t.Fatal(lost)
		}
		if early := time.Until(begin); early > off {
			t.Errorf("the last one has begun %v early", early)
		}
		whole := empty()
		for i, part := range parts {
			if part.Connections != []int{1, 20, 300}[i] {
				t.Errorf("%+v", part.Counts)
			}
			if err := whole.Merge(part.Meter); err != nil {
				t.Fatal(err)
			}
		}
		if got := whole.Sum(0, 2); got.Starts != 321 || got.Latency().N != 321 {
			t.Errorf("%+v", got)
		}
	}
}

// TestResolve tests that a worker resolves names where it runs, and that its error is returned.
func TestResolve(t *testing.T) {
	f, err := Connect(t.Context(), places(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	found, err := f.Clients[1].LookupNetIP(t.Context(), "ip", "localhost")
	if err != nil || !slices.ContainsFunc(found, netip.Addr.IsLoopback) {
		t.Errorf("%v, %v", found, err)
	}
	if err := f.Prepare(t.Context(), "job", time.Minute); err != nil {
		t.Error(err)
	}
	if found, err := f.Clients[0].LookupNetIP(t.Context(), "ip", "no host name"); err == nil || found != nil || !strings.Contains(err.Error(), "no such host") {
		t.Errorf("%v, %v", found, err)
	}
}

// TestWhyGone tests that a client that fell silent is reported with what its session knows.
func TestWhyGone(t *testing.T) {
	l := &Lost{Client: "b", Heard: time.Now(), At: 3 * time.Second, Silent: 30 * time.Second, Err: fmt.Errorf("read: %w", &Gone{"pod b: node worker-2 does not respond"})}
	if want := "; given up 30 s later: pod b: node worker-2 does not respond"; !strings.HasSuffix(l.Why(), want) {
		t.Errorf("%s, want %q", l.Why(), want)
	}
}

// TestStopped tests that an interrupted load returns its results so far.
func TestStopped(t *testing.T) {
	f := started(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	heard := map[int]bool{}
	parts, lost := f.Run(ctx, f.Begin(), time.Hour, []Share{{For: time.Hour, Connections: 4}, {For: time.Hour, Connections: 4}}, func(client int, n Now) {
		mu.Lock()
		defer mu.Unlock()
		if heard[client] = n.AnswerRate == 7; len(heard) == 2 {
			cancel()
		}
	})
	if !slices.Equal(lost, []*Lost{nil, nil}) || len(parts) != 2 || parts[0] == nil || parts[1] == nil || parts[1].Connections != 4 {
		t.Errorf("%v %v", parts, lost)
	}
}

// TestLost tests that a lost client is named, that the others are stopped, and that their counts
// are returned.
func TestLost(t *testing.T) {
	f := started(t, 2)
	parts, lost := f.Run(t.Context(), f.Begin(), time.Hour, []Share{{For: time.Hour, Connections: 1}, {Seed: 666}}, func(int, Now) {})
	if lost[0] != nil || lost[1] == nil || lost[1].Silent != 0 || !strings.HasPrefix(lost[1].Error(), "client b: the program ended: exit status 3 (last report at ") {
		t.Error(lost)
	}
	if parts[0] == nil || parts[0].Connections != 1 || parts[1] != nil {
		t.Error(parts)
	}
}

// TestFallsSilent tests a client whose connection exists but that no longer reports. It is reported
// and, after a time that does not depend on the load, given up. The others are stopped, and their
// counts are returned.
func TestFallsSilent(t *testing.T) {
	root.Real(t, "waits ten seconds for a client that has fallen silent")
	t.Parallel()
	f := started(t, 2)
	f.Patience = 10 * time.Second // that the other is heard of in, on a busy machine too
	quiet := make(chan string, 10)
	f.Quiet = func(client string, _ time.Time) { quiet <- client }
	begin := f.Begin()
	parts, lost := f.Run(t.Context(), begin, time.Hour, []Share{{For: time.Hour, Connections: 1}, {Seed: 667, For: time.Hour}}, func(int, Now) {})
	if took := time.Since(begin); took > 10*time.Minute {
		t.Errorf("it took %v", took)
	}
	if len(quiet) == 0 || <-quiet != "b" {
		t.Error("nobody was told of it")
	}
	l := lost[1]
	if l == nil || l.At != 3*time.Second || l.Silent < f.Patience || l.Silent > 10*time.Minute || l.Heard.Before(begin) ||
		!strings.HasPrefix(l.Error(), "client b: last report at "+l.Heard.Format(time.TimeOnly)+", 3 s into the load; given up ") {
		t.Errorf("%v", l)
	}
	if lost[0] != nil || parts[0] == nil || parts[0].Connections != 1 || parts[1] != nil {
		t.Errorf("%v, %v", parts, lost)
	}
}

func TestNotStarted(t *testing.T) {
	for want, c := range map[string]struct {
		command string
		job     any
	}{
		"that is refused": {"", "refuse"},
		"client b: not a message of fettle/load-worker/v4":          {"echo hello; cat >/dev/null", 1},
		"client b: no answer in protocol fettle/load-worker/v4":     {`echo '{"ready":{"schema":"other"}}'; cat >/dev/null`, 1},
		"client b: the program is not installed on the remote host": {"exec /no/such/fettle", 1},
		"client b: the program ended: away (exit status 9)":         {"echo away >&2; exit 9", 1},
	} {
		all := places(t, 2)
		if c.command != "" {
			all[1].Words[2] = c.command
		}
		f, err := Start(t.Context(), all, c.job, time.Minute)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if f != nil {
			f.Close()
		}
	}
}

// TestSilent tests that the wait for a client that never responds, or stops before it is ready, is
// limited, whatever it has started and whichever process holds its output.
func TestSilent(t *testing.T) {
	root.Real(t, "waits ten seconds for clients that do not speak")
	t.Parallel()
	for _, command := range []string{"sleep 1000", "setsid sleep 1000", "trap '' TERM HUP; sleep 1000", `echo '{"ready":{"schema":"fettle/load-worker/v4"}}'; sleep 1000`} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			all := places(t, 2)
			all[1].Words[2] = command
			begin := time.Now()
			// The other one has that time to be ready. The job is more than a pipe takes.
			_, err := Start(t.Context(), all, strings.Repeat("x", 1<<20), 10*time.Second)
			if err == nil || !strings.Contains(err.Error(), "client b: not ready within 10s; check that the command runs fettle load worker") || strings.Contains(err.Error(), "client a") {
				t.Error(err)
			}
			if took := time.Since(begin); took > 10*time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestServe tests that a worker processes its messages in order and ends with its input.
func TestServe(t *testing.T) {
	in, to := io.Pipe()
	from, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(t.Context(), in, out, invented{}, 0); out.Close() }()
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	ask := func(m any) (answer fromWorker) {
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := to.Write(append(text, '\n')); err != nil {
			t.Fatal(err)
		}
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &answer) != nil {
			t.Fatalf("%q", lines.Text())
		}
		return answer
	}
	if m := ask(toWorker{Job: []byte(`"refuse"`)}); m.Error != "that is refused" {
		t.Errorf("%+v", m)
	}
	if m := ask(toWorker{Job: []byte(`1`)}); m.Ready == nil || m.Ready.Schema != Schema {
		t.Errorf("%+v", m)
	}
	if m := ask(toWorker{Ping: true}); m.Pong < time.Now().Add(-time.Minute).UnixNano() {
		t.Errorf("%+v", m)
	}
	if m := ask(toWorker{Run: &Share{Connections: 2, Stages: []engine.Stage{{From: 1, To: 1, For: time.Second}}}}); m.Part == nil || m.Part.Connections != 2 || m.Part.Late <= 0 {
		t.Errorf("%+v", m)
	}
	// What is under way when the input ends is stopped.
	if m := ask(toWorker{Run: &Share{For: time.Hour}}); m.Now == nil {
		t.Errorf("%+v", m)
	}
	go func() { _, _ = io.Copy(io.Discard, from) }()
	to.Close()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	if err := Serve(t.Context(), strings.NewReader("hello\n"), io.Discard, invented{}, 0); err == nil || !strings.Contains(err.Error(), "not a message of "+Schema) {
		t.Error(err)
	}
}

// recorder records after its run was ended.
type recorder struct{ invented }

func (recorder) Run(ctx context.Context, _ Share, to Coordinator) (*Part, error) {
	to.Now(Now{})
	<-ctx.Done()
	if err := to.Record(json.RawMessage(`["late"]`)); err != nil {
		return nil, err
	}
	return &Part{Scenario: json.RawMessage(`{}`)}, to.Record(json.RawMessage(`["later"]`))
}

// TestRecord: a worker that is ended still records what it has, also while other messages arrive.
// Without a coordinator, recording fails.
func TestRecord(t *testing.T) {
	for _, answers := range []bool{true, false} {
		in, to := io.Pipe()
		from, out := io.Pipe()
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, in, out, recorder{}, 0); out.Close() }()
		lines := bufio.NewScanner(from)
		send := func(text string) {
			if _, err := io.WriteString(to, text+"\n"); err != nil {
				t.Error(err)
			}
		}
		read := func(want string) {
			t.Helper()
			if !lines.Scan() || !strings.HasPrefix(lines.Text(), want) {
				t.Errorf("%q, want %q", lines.Text(), want)
			}
		}
		send(`{"run": {}}`)
		read(`{"now":`)
		end()
		read(`{"record":["late"]}`)
		if answers {
			send(`{"stop": true}`)
			send(`{"recorded": {}}`)
			read(`{"record":["later"]}`)
			send(`{"recorded": {"error": "the disk is full"}}`)
			read(`{"error":"the disk is full"}`)
		} else {
			to.Close()
			read(`{"error":"the connection to the coordinator, which records, is lost"}`)
		}
		<-done
		to.Close()
	}
}

// TestServeAlone tests that a worker ends if no caller connects to its input in time, and that a
// caller ends the limit.
func TestServeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, to := io.Pipe()
		defer to.Close()
		if err := Serve(t.Context(), in, io.Discard, invented{}, 3*time.Minute); err == nil || err.Error() != "no caller within 3m0s" {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		in, to := io.Pipe()
		go func() {
			_, _ = io.WriteString(to, `{"ping": true}`+"\n")
			time.Sleep(time.Hour)
			to.Close()
		}()
		began := time.Now()
		if err := Serve(t.Context(), in, io.Discard, invented{}, 3*time.Minute); err != nil || time.Since(began) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
