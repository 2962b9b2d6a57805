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

// redirectError is an answer that sends elsewhere, where a token is not to go.
type redirectError struct{ to *url.URL }

func (r *redirectError) Error() string { return "it sends to " + r.to.Redacted() }

// timeoutError is a time that is over.
type timeoutError struct{ after time.Duration }

func (i *timeoutError) Error() string { return "no answer within " + i.after.String() }

// connectionError says why a question has no answer, and what to do.
func (s *Server) connectionError(ctx context.Context, err error) error {
	host := s.base.Host
	var (
		over   *timeoutError
		to     *redirectError
		name   *net.DNSError
		noTLS  tls.RecordHeaderError
		hostOf x509.HostnameError
		cert   *tls.CertificateVerificationError
		of     *url.Error
	)
	switch {
	case errors.As(context.Cause(ctx), &over):
		return fmt.Errorf("%s has not answered within %s: it is busy, or something between drops the packets", host, over.after)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &to):
		return fmt.Errorf("%s sends to %s: name the address that answers itself; a login wants --prometheus-token FILE", host, to.to.Redacted())
	case errors.As(err, &name):
		return fmt.Errorf("the name %s is not known here (%s): name another address, or an IP address", name.Name, name.Err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens at %s: start Prometheus, or a tunnel to it (oc port-forward -n openshift-monitoring pod/prometheus-k8s-0 9090), or name another address", host)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fmt.Errorf("there is no way to %s from here: name another address, or make a tunnel", host)
	case errors.As(err, &noTLS), errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s speaks no TLS: http:// instead of https://, if it is this machine or a tunnel", host)
	case errors.As(err, &hostOf), errors.As(err, &cert):
		return fmt.Errorf("the certificate of %s is not trusted here: add its authority to the system's, or use a tunnel to this machine with http:// (%w)", host, underlying(err))
	case errors.As(err, &of):
		return fmt.Errorf("%s cannot be asked: %w", host, of.Err)
	}
	return fmt.Errorf("the answer of %s ends early: %w", host, err)
}

// underlying is an error without the request that it is of.
func underlying(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// statusError says of an answer that is none what to do; nil for one.
func (s *Server) statusError(resp *http.Response) error {
	host := s.base.Host
	switch code := resp.StatusCode; {
	case code == http.StatusOK, code == http.StatusBadRequest, code == http.StatusUnprocessableEntity:
		return nil // of the last two the body says what is wrong with the question
	case (code == http.StatusUnauthorized || code == http.StatusForbidden) && s.token != "":
		return fmt.Errorf("%s does not take this token (%s): it has ended, or may not ask; --prometheus-token FILE with another (oc create token prometheus-k8s -n openshift-monitoring)", host, resp.Status)
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return fmt.Errorf("%s lets nobody in without a token (%s): --prometheus-token FILE", host, resp.Status)
	case code == http.StatusNotFound:
		return fmt.Errorf("%s has no %s (%s): it is no Prometheus, or lies below another path: name that too", host, resp.Request.URL.Path, resp.Status)
	case code == http.StatusServiceUnavailable:
		return fmt.Errorf("%s is not ready (%s): wait until it has read its data", host, resp.Status)
	case code >= 500:
		return fmt.Errorf("%s fails (%s): look at its log, and at that of what is before it", host, resp.Status)
	}
	return fmt.Errorf("%s answers %s: want the address of a Prometheus", host, resp.Status)
}
