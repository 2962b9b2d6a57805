package cli

import (
	"io"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// logTo sends what a long-running verb and the Kubernetes libraries log to w, one
// line each. Of the libraries only warnings and errors are of interest, unless
// everything is.
func logTo(w io.Writer, debug bool) logr.Logger {
	level := slog.LevelInfo
	if debug {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
	klog.SetSlogLogger(log.With("of", "client"))
	return logr.FromSlogHandler(log.Handler())
}
