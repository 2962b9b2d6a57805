// Package engine generates load: it schedules requests, sends them over HTTP/1.1 and HTTP/2,
// measures the answers, and evaluates thresholds.
package engine
