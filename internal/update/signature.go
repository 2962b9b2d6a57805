package update

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"path"
	"strings"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
)

// KeyDir has the public keys that may sign an update, as PEM files.
const KeyDir = "/etc/fettle/keys"

// Key is a public key that may sign an update.
type Key struct {
	File string // its path
	key  crypto.PublicKey
}

// Keys reads the public keys in KeyDir. Only root may be able to change them.
func Keys(h *host.Host) ([]Key, error) {
	entries, err := h.Files.ReadDir(KeyDir)
	if err != nil && !host.NotFound(err) {
		return nil, err
	}
	var keys []Key
	for _, e := range entries {
		file := path.Join(KeyDir, e.Name())
		if path.Ext(file) != ".pem" {
			continue
		}
		if err := profile.Trusted(h, file); err != nil {
			return nil, fmt.Errorf("key not used: %w", err)
		}
		text, err := h.Files.ReadFile(file)
		if err != nil {
			return nil, err
		}
		key, err := ParseKey(file, text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// ParseKey parses a public key: PEM of the type PUBLIC KEY, for ECDSA, RSA or Ed25519.
func ParseKey(file string, text []byte) (Key, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PUBLIC KEY" {
		return Key{}, fmt.Errorf("%s: want a public key in PEM (openssl pkey -in KEY -pubout)", file)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return Key{}, fmt.Errorf("%s: %w", file, err)
	}
	switch key.(type) {
	case *ecdsa.PublicKey, *rsa.PublicKey, ed25519.PublicKey:
		return Key{File: file, key: key}, nil
	}
	return Key{}, fmt.Errorf("%s: want a key for ECDSA, RSA or Ed25519", file)
}

// ErrSignature is returned for a file that none of the keys has signed.
var ErrSignature = errors.New("not signed by any of the configured keys")

// signer returns the key that has signed data. The signature is what openssl dgst -sha256 -sign
// writes (ECDSA and RSA) or openssl pkeyutl -sign -rawin (Ed25519); cosign sign-blob writes the
// first one as base64.
func signer(keys []Key, data, signature []byte) (Key, error) {
	if decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(signature))); err == nil {
		signature = decoded
	}
	sum := sha256.Sum256(data)
	for _, k := range keys {
		good := false
		switch key := k.key.(type) {
		case *ecdsa.PublicKey:
			good = ecdsa.VerifyASN1(key, sum[:], signature)
		case *rsa.PublicKey:
			good = rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
		case ed25519.PublicKey:
			good = ed25519.Verify(key, data, signature)
		}
		if good {
			return k, nil
		}
	}
	return Key{}, ErrSignature
}
