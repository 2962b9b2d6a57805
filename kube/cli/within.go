package cli

import (
	"context"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
)

// within has requests of a configuration end with ctx, those too that are made without one:
// client-go's look at what a server has.
func within(ctx context.Context, config *rest.Config) *rest.Config {
	bound := rest.CopyConfig(config)
	bound.Wrap(func(next http.RoundTripper) http.RoundTripper { return requests{ctx, next} })
	return bound
}

type requests struct {
	ctx  context.Context
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r requests) RoundTrip(q *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(q.Context())
	stop := context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })
	end := func() { stop(); cancel(nil) }
	resp, err := r.next.RoundTrip(q.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	resp.Body = answer{resp.Body, end}
	return resp, nil
}

// answer is a body whose request ends when it is closed.
type answer struct {
	io.ReadCloser
	end func()
}

func (a answer) Close() error {
	defer a.end()
	return a.ReadCloser.Close()
}

// WrappedRoundTripper is how client-go finds who can cancel a request.
func (r requests) WrappedRoundTripper() http.RoundTripper { return r.next }
