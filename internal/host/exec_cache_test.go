package host

import (
	"context"
	"errors"
	"testing"
)

// countedExec answers with the number of calls.
type countedExec struct {
	noExec
	n int
}

func (x *countedExec) Run(context.Context, Command) (Result, error) {
	x.n++
	return Result{ExitCode: x.n}, errors.New("once")
}

func TestAskedOnce(t *testing.T) {
	x := &countedExec{}
	h := CacheExec(&Host{Exec: x})
	for _, c := range []struct {
		cmd  Command
		want int
	}{
		{Command{Argv: []string{"rpm", "-qa"}}, 1},
		{Command{Argv: []string{"rpm", "-qa"}}, 1},
		{Command{Argv: []string{"rpm -qa"}}, 2},
		{Command{Argv: []string{"rpm", "-qa"}, Env: []string{"A=b"}}, 3},
		{Command{Argv: []string{"rpm", "-qa"}}, 1},
	} {
		if res, err := h.Exec.Run(t.Context(), c.cmd); res.ExitCode != c.want || err == nil {
			t.Errorf("%+v: answer %d, %v, want %d", c.cmd, res.ExitCode, err, c.want)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if res, _ := h.Exec.Run(ended, Command{Argv: []string{"a"}}); res.ExitCode != 4 {
		t.Errorf("answer %d", res.ExitCode)
	}
	if res, _ := h.Exec.Run(t.Context(), Command{Argv: []string{"a"}}); res.ExitCode != 5 {
		t.Error("what was interrupted is taken for an answer")
	}
}

// TestRemember: only a host of CacheExec remembers, each key for itself.
func TestRemember(t *testing.T) {
	n := 0
	count := func() int { n++; return n }
	plain := &Host{}
	once := CacheExec(plain)
	for i, got := range []int{
		Remember(once, "/a", count), Remember(once, "/a", count), Remember(once, "/b", count), Remember(plain, "/a", count), Remember(plain, "/a", count), Remember(CacheExec(plain), "/a", count),
	} {
		if want := []int{1, 1, 2, 3, 4, 5}[i]; got != want {
			t.Errorf("call %d: %d, want %d", i, got, want)
		}
	}
}
