package host

import (
	"context"
	"strings"
	"sync"
)

// CacheExec returns a host that runs each command only once and then repeats its result or
// error. Independent readers of the same state so share one run.
func CacheExec(h *Host) *Host {
	once := *h
	once.Exec = &cachedExec{Exec: h.Exec, answers: map[string]cachedAnswer{}}
	return &once
}

type cachedExec struct {
	Exec
	mu      sync.Mutex
	answers map[string]cachedAnswer
}

type cachedAnswer struct {
	res Result
	err error
}

func (x *cachedExec) Run(ctx context.Context, c Command) (Result, error) {
	if len(c.Env) > 0 || c.Dir != "" || c.Tag != "" {
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
