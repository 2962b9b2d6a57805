package host

import (
	"context"
	"strings"
	"sync"
)

// CacheExec returns a host that runs each command only once and then repeats its result or error,
// so that independent readers of the same state share one run. What Remember reads is also read
// only once.
func CacheExec(h *Host) *Host {
	once := *h
	once.Exec = &cachedExec{Exec: h.Exec, answers: map[string]cachedAnswer{}}
	once.remembered = &sync.Map{}
	return &once
}

// Remember returns the result of read. A host of CacheExec calls it once for each key, which is the
// path of what is read.
func Remember[T any](h *Host, key string, read func() T) T {
	if h.remembered == nil {
		return read()
	}
	once, _ := h.remembered.LoadOrStore(key, sync.OnceValue(read))
	return once.(func() T)() //nolint:forcetypeassert // each key has one type
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
