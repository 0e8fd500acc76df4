//go:build unix

package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// certificateLife is how long certificates are valid that nobody asked
// anything else of.
const certificateLife = 10 * 365 * 24 * time.Hour

// pki is what makes a cluster's identities: one authority for serving and
// client certificates, and the key that signs service account tokens.
type pki struct {
	caCert   *x509.Certificate
	caKey    *ecdsa.PrivateKey
	caPEM    []byte
	caKeyPEM []byte
	saKeyPEM []byte
}

// keyPair is a PEM certificate with its PEM key.
type keyPair struct{ cert, key []byte }

func newPKI() (*pki, error) {
	caKey, caKeyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	_, saKeyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "isthmus-controlplane"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(certificateLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, caKey.Public(), caKey)
	if err != nil {
		return nil, fmt.Errorf("making the certificate authority: %w", err)
	}
	caCert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("making the certificate authority: %w", err)
	}
	return &pki{caCert: caCert, caKey: caKey, caPEM: certPEM(der), caKeyPEM: caKeyPEM, saKeyPEM: saKeyPEM}, nil
}

// client issues a certificate by which the API server knows a user. The zero
// time stands for a long life.
func (p *pki) client(user string, groups []string, notAfter time.Time) (keyPair, error) {
	return p.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, notAfter)
}

// serving issues a certificate for an API server on loopback.
func (p *pki) serving(notAfter time.Time) (keyPair, error) {
	return p.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4(10, 0, 0, 1)},
	}, notAfter)
}

func (p *pki) issue(template *x509.Certificate, notAfter time.Time) (keyPair, error) {
	now := time.Now()
	if notAfter.IsZero() {
		notAfter = now.Add(certificateLife)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return keyPair{}, fmt.Errorf("choosing a serial number: %w", err)
	}
	template.SerialNumber = serial
	template.NotAfter = notAfter
	template.NotBefore = now.Add(-time.Hour)
	if !template.NotBefore.Before(notAfter) {
		template.NotBefore = notAfter.Add(-time.Hour)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key, keyPEM, err := newKey()
	if err != nil {
		return keyPair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, p.caCert, key.Public(), p.caKey)
	if err != nil {
		return keyPair{}, fmt.Errorf("issuing a certificate for %s: %w", template.Subject.CommonName, err)
	}
	return keyPair{cert: certPEM(der), key: keyPEM}, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generating a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
