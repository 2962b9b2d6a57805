package host

import (
	"context"
	"strings"
	"sync"
)

// AskedOnce returns a host that runs a program of the same arguments once and
// answers the next time as it did the first, an error included: those who look at
// one state of a machine need not know who has asked already.
func AskedOnce(h *Host) *Host {
	once := *h
	once.Exec = &onceExec{Exec: h.Exec, answers: map[string]onceAnswer{}}
	return &once
}

type onceExec struct {
	Exec
	mu      sync.Mutex
	answers map[string]onceAnswer
}

type onceAnswer struct {
	res Result
	err error
}

func (x *onceExec) Run(ctx context.Context, c Command) (Result, error) {
	if len(c.Stdin) > 0 || len(c.Env) > 0 || c.Dir != "" || c.Mark != "" {
		return x.Exec.Run(ctx, c)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	key := strings.Join(c.Argv, "\x00")
	a, ok := x.answers[key]
	if !ok {
		a.res, a.err = x.Exec.Run(ctx, c)
		if ctx.Err() == nil {
			x.answers[key] = a
		}
	}
	return a.res, a.err
}
