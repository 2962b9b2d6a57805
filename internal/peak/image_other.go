//go:build !amd64

package peak

import (
	"fmt"
	"runtime"
)

// image returns an error: there is no starter for this architecture.
func image() ([]byte, error) { return nil, fmt.Errorf("there is no starter for %s", runtime.GOARCH) }
