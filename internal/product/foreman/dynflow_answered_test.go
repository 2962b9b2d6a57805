package foreman

import (
	"context"

	"fettle.dev/fettle/internal/host"
)

// answered are the answers of a recording.
type answered map[string][]byte

func (a answered) Query(_ context.Context, question string, _ func(context.Context, *host.Host) ([]byte, error)) ([]byte, error) {
	if b, ok := a[question]; ok {
		return b, nil
	}
	return nil, host.ErrNotRecorded
}
