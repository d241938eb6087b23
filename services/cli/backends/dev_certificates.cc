#include "services/cli/backends/dev_certificates.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace plimsoll::cli {
namespace {

constexpr int kSerialBits = 127;
constexpr size_t kMaxHostBytes = 253;
// Clocks of two machines may differ by this much.
constexpr long kClockSlackSeconds = 300;

using BioPtr = std::unique_ptr<BIO, decltype(&BIO_free_all)>;
using X509Ptr = std::unique_ptr<X509, decltype(&X509_free)>;
using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

absl::Status Failed(absl::string_view step) {
  ERR_clear_error();
  return absl::InternalError(absl::StrCat("OpenSSL cannot ", step));
}

// A signing CA.
struct Issuer {
  X509Ptr certificate;
  KeyPtr key;
};

absl::StatusOr<Issuer> ReadIssuer(const CertificatePair& ca) {
  const auto open = [](const std::string& pem) {
    return BioPtr(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())),
                  &BIO_free_all);
  };
  Issuer issuer{X509Ptr(PEM_read_bio_X509(open(ca.certificate).get(), nullptr,
                                          nullptr, nullptr),
                        &X509_free),
                KeyPtr(PEM_read_bio_PrivateKey(open(ca.key).get(), nullptr,
                                               nullptr, nullptr),
                       &EVP_PKEY_free)};
  const bool is_good =
      issuer.certificate != nullptr && issuer.key != nullptr &&
      X509_check_private_key(issuer.certificate.get(), issuer.key.get()) == 1 &&
      X509_check_ca(issuer.certificate.get()) != 0;
  ERR_clear_error();
  if (is_good) return issuer;
  return absl::InvalidArgumentError("the CA's certificate and key are no pair");
}

// What a certificate says.
struct Subject {
  std::string name;
  // Extensions by their numbers, in the words of openssl-x509v3_config(5).
  std::vector<std::pair<int, std::string>> extensions;
};

bool SetSerial(X509* certificate) {
  const std::unique_ptr<BIGNUM, decltype(&BN_free)> number(BN_new(), &BN_free);
  return number != nullptr &&
         BN_rand(number.get(), kSerialBits, BN_RAND_TOP_ANY,
                 BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) !=
             nullptr;
}

bool SetName(X509_NAME* into, const std::string& name) {
  return X509_NAME_add_entry_by_txt(
             into, "CN", MBSTRING_UTF8,
             reinterpret_cast<const unsigned char*>(name.data()),
             static_cast<int>(name.size()), -1, 0) == 1;
}

bool AddExtensions(X509* certificate, X509* issuer, const Subject& subject) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  return std::all_of(
      subject.extensions.begin(), subject.extensions.end(),
      [&](const auto& wanted) {
        const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)>
            extension(X509V3_EXT_conf_nid(nullptr, &context, wanted.first,
                                          wanted.second.c_str()),
                      &X509_EXTENSION_free);
        return extension != nullptr &&
               X509_add_ext(certificate, extension.get(), -1) == 1;
      });
}

// Returns what `write` writes into memory.
template <typename Write>
absl::StatusOr<std::string> ToPem(const Write& write) {
  const BioPtr memory(BIO_new(BIO_s_mem()), &BIO_free_all);
  if (memory == nullptr || write(memory.get()) != 1) {
    return Failed("write PEM");
  }
  char* bytes = nullptr;
  const long n = BIO_get_mem_data(memory.get(), &bytes);
  return std::string(bytes, static_cast<size_t>(n));
}

// Makes a key, and a certificate for it which `issuer` signs; null: it signs
// itself.
absl::StatusOr<CertificatePair> NewPair(const Subject& subject,
                                        const Issuer* issuer) {
  const KeyPtr key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  if (key == nullptr) return Failed("make a key");
  const X509Ptr certificate(X509_new(), &X509_free);
  X509* const made = certificate.get();
  if (made == nullptr) return Failed("make a certificate");
  X509* const signer = issuer == nullptr ? made : issuer->certificate.get();
  EVP_PKEY* const signing = issuer == nullptr ? key.get() : issuer->key.get();
  const long life = absl::ToInt64Seconds(kDevCertificateLife);
  const bool is_signed =
      X509_set_version(made, X509_VERSION_3) == 1 && SetSerial(made) &&
      X509_gmtime_adj(X509_getm_notBefore(made), -kClockSlackSeconds) !=
          nullptr &&
      X509_gmtime_adj(X509_getm_notAfter(made), life) != nullptr &&
      X509_set_pubkey(made, key.get()) == 1 &&
      SetName(X509_get_subject_name(made), subject.name) &&
      X509_set_issuer_name(made, X509_get_subject_name(signer)) == 1 &&
      AddExtensions(made, signer, subject) &&
      X509_sign(made, signing, EVP_sha256()) != 0;
  if (!is_signed) return Failed("sign a certificate");
  CertificatePair pair;
  ASSIGN_OR_RETURN(pair.certificate, ToPem([made](BIO* memory) {
                     return PEM_write_bio_X509(memory, made);
                   }));
  ASSIGN_OR_RETURN(pair.key, ToPem([&key](BIO* memory) {
                     return PEM_write_bio_PrivateKey(memory, key.get(), nullptr,
                                                     nullptr, 0, nullptr,
                                                     nullptr);
                   }));
  return pair;
}

// Returns "DNS:NAME" or "IP:ADDRESS".
absl::StatusOr<std::string> AlternativeName(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1 ||
      inet_pton(AF_INET6, host.c_str(), &v6) == 1) {
    return absl::StrCat("IP:", host);
  }
  // Other characters could say more than a name to OpenSSL.
  const bool is_name = std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
           c == '.';
  });
  if (!is_name || host.empty() || host.size() > kMaxHostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", host.substr(0, 80), "' is no host"));
  }
  return absl::StrCat("DNS:", host);
}

}  // namespace

absl::StatusOr<CertificatePair> NewDevCa() {
  return NewPair({"Plimsoll development CA",
                  {{NID_basic_constraints, "critical,CA:TRUE"},
                   {NID_key_usage, "critical,keyCertSign,cRLSign"},
                   {NID_subject_key_identifier, "hash"}}},
                 nullptr);
}

absl::StatusOr<CertificatePair> NewDevServer(
    const CertificatePair& ca, const std::vector<std::string>& hosts) {
  ASSIGN_OR_RETURN(const Issuer issuer, ReadIssuer(ca));
  std::string names;
  for (const std::string& host : hosts) {
    ASSIGN_OR_RETURN(const std::string name, AlternativeName(host));
    absl::StrAppend(&names, names.empty() ? "" : ",", name);
  }
  return NewPair({"plimsoll server",
                  {{NID_basic_constraints, "critical,CA:FALSE"},
                   {NID_key_usage, "critical,digitalSignature"},
                   {NID_ext_key_usage, "serverAuth"},
                   {NID_subject_alt_name, names},
                   {NID_authority_key_identifier, "keyid"}}},
                 &issuer);
}

absl::StatusOr<CertificatePair> NewDevClient(const CertificatePair& ca,
                                             const std::string& name,
                                             const std::string& others) {
  ASSIGN_OR_RETURN(const Issuer issuer, ReadIssuer(ca));
  Subject subject{name,
                  {{NID_basic_constraints, "critical,CA:FALSE"},
                   {NID_key_usage, "critical,digitalSignature"},
                   {NID_ext_key_usage, "clientAuth"},
                   {NID_authority_key_identifier, "keyid"}}};
  if (!others.empty()) {
    subject.extensions.emplace_back(NID_subject_alt_name, others);
  }
  return NewPair(subject, &issuer);
}

}  // namespace plimsoll::cli
