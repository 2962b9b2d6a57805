package prometheus

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

// redirectError is returned for a redirect that would send the token to another server.
type redirectError struct{ to *url.URL }

func (r *redirectError) Error() string { return "redirect to " + r.to.Redacted() }

// timeoutError is the cause of a context that ended by the timeout of WithTimeout.
type timeoutError struct{ after time.Duration }

func (i *timeoutError) Error() string { return "no answer within " + i.after.String() }

// connectionError explains why a request got no answer, and what to do.
func (s *Server) connectionError(ctx context.Context, err error) error {
	host := s.base.Host
	var (
		timeout *timeoutError
		to      *redirectError
		name    *net.DNSError
		noTLS   tls.RecordHeaderError
		hostOf  x509.HostnameError
		cert    *tls.CertificateVerificationError
		of      *url.Error
	)
	switch {
	case errors.As(context.Cause(ctx), &timeout):
		return fmt.Errorf("%s: no answer within %s; the server is busy, or a firewall drops the packets", host, timeout.after)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &to):
		return fmt.Errorf("%s redirects to %s; use the final address, or --prometheus-token FILE if this is a login", host, to.to.Redacted())
	case errors.As(err, &name):
		return fmt.Errorf("cannot resolve %s (%s); use another address, or an IP address", name.Name, name.Err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("connection to %s refused; start Prometheus, or a tunnel to it (oc port-forward -n openshift-monitoring pod/prometheus-k8s-0 9090), or use another address", host)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fmt.Errorf("no route to %s; use another address, or a tunnel", host)
	case errors.As(err, &noTLS), errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s does not use TLS; use http:// for an address of this machine or a tunnel", host)
	case errors.As(err, &hostOf), errors.As(err, &cert):
		return fmt.Errorf("the certificate of %s is not trusted (%w); add the certificate's CA to the system's CAs, or use a tunnel to this machine with http://", host, underlying(err))
	case errors.As(err, &of):
		return fmt.Errorf("request to %s: %w", host, of.Err)
	}
	return fmt.Errorf("the answer of %s is truncated: %w", host, err)
}

// underlying returns an error without the request that url.Error adds.
func underlying(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// statusError explains an error status and what to do. It returns nil if the body is usable.
func (s *Server) statusError(resp *http.Response) error {
	host := s.base.Host
	switch code := resp.StatusCode; {
	case code == http.StatusOK, code == http.StatusBadRequest, code == http.StatusUnprocessableEntity:
		return nil // the body explains the last two statuses
	case (code == http.StatusUnauthorized || code == http.StatusForbidden) && s.token != "":
		return fmt.Errorf("%s rejects this token (%s): the token has expired, or lacks the permission to query; use --prometheus-token FILE with a new token (oc create token prometheus-k8s -n openshift-monitoring)", host, resp.Status)
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return fmt.Errorf("%s requires a token (%s); use --prometheus-token FILE", host, resp.Status)
	case code == http.StatusNotFound:
		return fmt.Errorf("%s has no %s (%s): the server is not Prometheus, or has another base path; add that path to the address", host, resp.Request.URL.Path, resp.Status)
	case code == http.StatusServiceUnavailable:
		return fmt.Errorf("%s is not ready (%s); wait until Prometheus has loaded its data", host, resp.Status)
	case code >= 500:
		return fmt.Errorf("%s failed (%s); see its log and the log of any proxy in front", host, resp.Status)
	}
	return fmt.Errorf("%s answered %s; use the address of a Prometheus", host, resp.Status)
}
