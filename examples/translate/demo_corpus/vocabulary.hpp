#pragma once

#include <cstdint>

/// The vocabulary of the demonstration: English and Spanish words side by side, with the forms that no rule gives.
namespace demo {

enum class Gender { masculine, feminine };

/// What a word may be combined with, as a set of bits: a verb takes the nouns that share a bit with its `objects`, an adjective
/// those that share one with its `fits`. So people drink water and read books, and nobody eats a table.
using Kinds = std::uint64_t;

namespace kind {
constexpr Kinds bit(int n) { return Kinds{1} << n; }

// People and animals.
inline constexpr Kinds person = bit(0), kin = bit(1), name = bit(2), animal = bit(3), people = person | kin | name;

// What is done with a thing: mass nouns take no number; goods are bought, sold, wanted, expensive or cheap.
inline constexpr Kinds mass = bit(4), food = bit(5), drink = bit(6), read = bit(7), written = bit(8), worn = bit(9),
                       goods = bit(10), shut = bit(11), seen = bit(12), visited = bit(13), sought = bit(14), heard = bit(15);

// What a thing can be like.
inline constexpr Kinds coloured = bit(16), sized = bit(17), made = bit(18), pretty = bit(19), cleaned = bit(20), filled = bit(21),
                       opened = bit(22), broken = bit(23), warmed = bit(24), lengthy = bit(25), blossom = bit(26);

// Where a thing can be: small things lie on and under furniture, bulky things stand near landmarks.
inline constexpr Kinds small = bit(27), bulky = bit(28), surface = bit(29), landmark = bit(30);

// What a place is good for, and whether it can be somebody's.
inline constexpr Kinds outdoors = bit(31), quiet = bit(32), workplace = bit(33), dining = bit(34), shop = bit(35), home = bit(36),
                       trip = bit(37), owned = bit(38);

inline constexpr Kinds adult = bit(39), creature = bit(40);

/// What every thing has one bit of, and nobody any.
inline constexpr Kinds thing = goods | read | heard | shut | seen | sought;
}  // namespace kind

/// A noun without a plural here has an empty `many`; a place names its preposition, as in `on the beach`.
struct Noun {
  const char *one, *many;              // house, houses
  const char *spanish, *spanish_many;  // casa, casas
  Gender gender;
  Kinds kinds;
  const char* preposition = "";
};

/// Spanish has two verbs for `be`: ser for what a thing is, estar for the state and the place it is in.
enum class Be { ser, estar };

/// The feminine is the masculine with `o` turned into `a`, if there is an `o` to turn.
struct Adjective {
  const char* english;
  const char *spanish, *spanish_many;  // blanco, blancos
  Be be;
  bool gradable;  // takes `very`
  Kinds fits;
};

/// What a verb does to the sentences that can be made with it.
struct Traits {
  bool stative = false;  // present tense only: I want, I live
  bool generic = false;  // takes an object without article: I read books, I want coffee
  bool once = false;     // what it was done to is gone or done: nobody eats the same apple every day
  bool social = false;   // can be done with somebody
};

/// An empty list of Spanish forms is regular. Lists are: yo, tú, él or ella, nosotros, ellos.
struct Verb {
  const char *base, *third, *past;  // drink, drinks, drank
  const char* infinitive;           // beber
  const char *present, *preterite;
  Kinds objects, places;
  Traits traits = {};
  const char* before_object = "";  ///< the Spanish preposition of a verb of motion
};

/// Spanish forms: masculine, feminine, masculine plural, feminine plural; a single one serves all four.
struct Determiner {
  const char *one, *many;
  const char* spanish;
};

/// Words that have one form on each side.
struct Fixed {
  const char *english = "", *spanish = "";
};

namespace words {

inline constexpr auto m = Gender::masculine, f = Gender::feminine;
inline constexpr Kinds text = kind::read | kind::goods | kind::sought | kind::small;
inline constexpr Kinds garment = kind::worn | kind::goods | kind::sought | kind::coloured | kind::made | kind::cleaned;
inline constexpr Kinds furniture =
    kind::goods | kind::coloured | kind::sized | kind::made | kind::cleaned | kind::broken | kind::surface;
inline constexpr Kinds vessel = kind::goods | kind::sought | kind::coloured | kind::cleaned | kind::filled | kind::small;
inline constexpr Kinds vehicle =
    kind::goods | kind::seen | kind::sought | kind::coloured | kind::made | kind::cleaned | kind::bulky;
inline constexpr Kinds beast = kind::animal | kind::creature | kind::goods | kind::sized | kind::bulky;
inline constexpr Kinds beverage = kind::mass | kind::drink | kind::goods | kind::warmed;

inline constexpr Noun nouns[] = {
    {"boy", "boys", "niño", "niños", m, kind::person},
    {"girl", "girls", "niña", "niñas", f, kind::person},
    {"man", "men", "hombre", "hombres", m, kind::person | kind::adult},
    {"woman", "women", "mujer", "mujeres", f, kind::person | kind::adult},

    {"mother", "", "madre", "", f, kind::kin},
    {"father", "", "padre", "", m, kind::kin},
    {"brother", "brothers", "hermano", "hermanos", m, kind::kin},
    {"sister", "sisters", "hermana", "hermanas", f, kind::kin},
    {"uncle", "uncles", "tío", "tíos", m, kind::kin},
    {"aunt", "aunts", "tía", "tías", f, kind::kin},
    {"grandfather", "", "abuelo", "", m, kind::kin},
    {"grandmother", "", "abuela", "", f, kind::kin},

    {"Ana", "", "Ana", "", f, kind::name},
    {"María", "", "María", "", f, kind::name},
    {"Pedro", "", "Pedro", "", m, kind::name},
    {"Carlos", "", "Carlos", "", m, kind::name},

    {"dog", "dogs", "perro", "perros", m, beast},
    {"cat", "cats", "gato", "gatos", m, beast},
    {"horse", "horses", "caballo", "caballos", m, beast},

    {"apple", "apples", "manzana", "manzanas", f, kind::food | kind::goods | kind::sized | kind::small},
    {"orange", "oranges", "naranja", "naranjas", f, kind::food | kind::goods | kind::sized | kind::small},
    {"bread", "", "pan", "", m, kind::mass | kind::food | kind::goods},
    {"cheese", "", "queso", "", m, kind::mass | kind::food | kind::goods},
    {"rice", "", "arroz", "", m, kind::mass | kind::food | kind::goods | kind::warmed},
    {"soup", "", "sopa", "", f, kind::mass | kind::food | kind::goods | kind::warmed},
    {"water", "", "agua", "", f, beverage},
    {"coffee", "", "café", "", m, beverage},
    {"milk", "", "leche", "", f, beverage},
    {"tea", "", "té", "", m, beverage},

    {"book", "books", "libro", "libros", m, text | kind::coloured | kind::made | kind::sized},
    {"letter", "letters", "carta", "cartas", f, kind::read | kind::written | kind::sought | kind::small | kind::lengthy},
    {"poem", "poems", "poema", "poemas", m, kind::read | kind::written | kind::pretty | kind::lengthy},
    {"newspaper", "newspapers", "periódico", "periódicos", m, text},
    {"magazine", "magazines", "revista", "revistas", f, text | kind::made},
    {"music", "", "música", "", f, kind::mass | kind::heard | kind::pretty},
    {"song", "songs", "canción", "canciones", f, kind::heard | kind::written | kind::pretty | kind::lengthy},

    {"shirt", "shirts", "camisa", "camisas", f, garment},
    {"jacket", "jackets", "chaqueta", "chaquetas", f, garment | kind::pretty},
    {"hat", "hats", "sombrero", "sombreros", m, garment | kind::pretty | kind::small},
    {"coat", "coats", "abrigo", "abrigos", m, garment | kind::lengthy},

    {"table", "tables", "mesa", "mesas", f, furniture},
    {"chair", "chairs", "silla", "sillas", f, furniture},
    {"cup", "cups", "taza", "tazas", f, vessel | kind::pretty | kind::broken},
    {"bottle", "bottles", "botella", "botellas", f, vessel | kind::shut | kind::broken},
    {"box", "boxes", "caja", "cajas", f, vessel | kind::shut | kind::sized},
    {"key", "keys", "llave", "llaves", f, kind::sought | kind::small | kind::sized},
    {"clock", "clocks", "reloj", "relojes", m, kind::goods | kind::sought | kind::made | kind::broken | kind::small},
    {"flower", "flowers", "flor", "flores", f, kind::goods | kind::seen | kind::pretty | kind::blossom | kind::small},

    {"car", "cars", "coche", "coches", m, vehicle | kind::landmark},
    {"bicycle", "bicycles", "bicicleta", "bicicletas", f, vehicle | kind::broken},
    {"door", "doors", "puerta", "puertas", f, kind::shut | kind::opened | kind::coloured | kind::landmark},
    {"window", "windows", "ventana", "ventanas", f, kind::shut | kind::opened | kind::broken | kind::sized},
    {"tree", "trees", "árbol", "árboles", m, kind::seen | kind::sized | kind::bulky | kind::landmark},
    {"house", "houses", "casa", "casas", f,
     kind::goods | kind::seen | kind::coloured | kind::sized | kind::made | kind::pretty | kind::landmark},
};

/// Places, all in the singular.
inline constexpr Noun places[] = {
    {"park", "", "parque", "", m,
     kind::outdoors | kind::quiet | kind::dining | kind::visited | kind::sized | kind::pretty | kind::trip | kind::seen, "in"},
    {"garden", "", "jardín", "", m,
     kind::outdoors | kind::quiet | kind::dining | kind::sized | kind::pretty | kind::seen | kind::owned, "in"},
    {"beach", "", "playa", "", f,
     kind::outdoors | kind::dining | kind::visited | kind::pretty | kind::cleaned | kind::trip | kind::seen, "on"},
    {"street", "", "calle", "", f, kind::outdoors | kind::cleaned | kind::lengthy | kind::owned, "in"},
    {"kitchen", "", "cocina", "", f, kind::dining | kind::sized | kind::cleaned | kind::owned, "in"},
    {"library", "", "biblioteca", "", f, kind::quiet | kind::workplace | kind::opened | kind::sized | kind::trip | kind::landmark,
     "in"},
    {"school", "", "escuela", "", f, kind::quiet | kind::workplace | kind::made | kind::trip | kind::landmark | kind::owned,
     "at"},
    {"office", "", "oficina", "", f, kind::workplace | kind::made | kind::sized | kind::trip | kind::owned, "at"},
    {"hospital", "", "hospital", "", m, kind::workplace | kind::made | kind::sized | kind::trip | kind::landmark, "at"},
    {"station", "", "estación", "", f, kind::workplace | kind::made | kind::shop | kind::trip | kind::landmark, "at"},
    {"market", "", "mercado", "", m, kind::workplace | kind::shop | kind::opened | kind::visited | kind::trip | kind::landmark,
     "at"},
    {"restaurant", "", "restaurante", "", m,
     kind::dining | kind::workplace | kind::opened | kind::filled | kind::trip | kind::landmark, "at"},
    {"city", "", "ciudad", "", f, kind::home | kind::shop | kind::visited | kind::pretty | kind::sized | kind::trip, "in"},
    {"village", "", "pueblo", "", m, kind::home | kind::visited | kind::pretty | kind::sized | kind::trip, "in"},
};

inline constexpr Kinds living = kind::people | kind::creature;

inline constexpr Adjective adjectives[] = {
    {"red", "rojo", "rojos", Be::ser, false, kind::coloured | kind::blossom},
    {"white", "blanco", "blancos", Be::ser, false, kind::coloured | kind::blossom | kind::animal},
    {"black", "negro", "negros", Be::ser, false, kind::coloured | kind::animal},
    {"yellow", "amarillo", "amarillos", Be::ser, false, kind::coloured | kind::blossom},
    {"green", "verde", "verdes", Be::ser, false, kind::coloured},
    {"blue", "azul", "azules", Be::ser, false, kind::coloured},
    {"big", "grande", "grandes", Be::ser, true, kind::sized},
    {"small", "pequeño", "pequeños", Be::ser, true, kind::sized},
    {"new", "nuevo", "nuevos", Be::ser, false, kind::made},
    {"old", "viejo", "viejos", Be::ser, true, kind::made},
    {"expensive", "caro", "caros", Be::ser, true, kind::goods},
    {"cheap", "barato", "baratos", Be::ser, true, kind::goods},
    {"pretty", "bonito", "bonitos", Be::ser, true, kind::pretty},
    {"interesting", "interesante", "interesantes", Be::ser, true, kind::read},
    {"long", "largo", "largos", Be::ser, true, kind::lengthy},
    {"clean", "limpio", "limpios", Be::estar, true, kind::cleaned},
    {"dirty", "sucio", "sucios", Be::estar, true, kind::cleaned},
    {"full", "lleno", "llenos", Be::estar, false, kind::filled},
    {"empty", "vacío", "vacíos", Be::estar, false, kind::filled},
    {"open", "abierto", "abiertos", Be::estar, false, kind::opened},
    {"closed", "cerrado", "cerrados", Be::estar, false, kind::opened},
    {"broken", "roto", "rotos", Be::estar, false, kind::broken},
    {"cold", "frío", "fríos", Be::estar, true, kind::warmed},
    {"hot", "caliente", "calientes", Be::estar, true, kind::warmed},
    {"tall", "alto", "altos", Be::ser, true, kind::people},
    {"young", "joven", "jóvenes", Be::ser, true, kind::adult | kind::kin | kind::name},
    {"intelligent", "inteligente", "inteligentes", Be::ser, true, living},
    {"kind", "amable", "amables", Be::ser, true, kind::people},
    {"strong", "fuerte", "fuertes", Be::ser, true, kind::people},
    {"tired", "cansado", "cansados", Be::estar, true, living},
    {"sick", "enfermo", "enfermos", Be::estar, true, living},
    {"busy", "ocupado", "ocupados", Be::estar, true, kind::people},
    {"happy", "contento", "contentos", Be::estar, true, kind::people},
    {"sad", "triste", "tristes", Be::estar, true, living},
};

inline constexpr Verb verbs[] = {
    {"eat", "eats", "ate", "comer", "", "", kind::food, kind::dining, {.generic = true, .once = true, .social = true}},
    {"drink", "drinks", "drank", "beber", "", "", kind::drink, kind::dining, {.generic = true, .once = true, .social = true}},
    {"read", "reads", "read", "leer", "", "leí leíste leyó leímos leyeron", kind::read, kind::quiet, {.generic = true}},
    {"write", "writes", "wrote", "escribir", "", "", kind::written, kind::quiet, {.generic = true, .once = true}},
    {"buy", "buys", "bought", "comprar", "", "", kind::goods, kind::shop, {.generic = true, .once = true}},
    {"sell", "sells", "sold", "vender", "", "", kind::goods, kind::shop, {.generic = true, .once = true}},
    {"open", "opens", "opened", "abrir", "", "", kind::shut, 0},
    {"close", "closes", "closed", "cerrar", "cierro cierras cierra cerramos cierran", "", kind::shut, 0},
    {"see", "sees", "saw", "ver", "veo ves ve vemos ven", "vi viste vio vimos vieron", kind::people | kind::seen, 0},
    {"visit", "visits", "visited", "visitar", "", "", kind::people | kind::visited, 0, {.social = true}},
    {"help", "helps", "helped", "ayudar", "", "", kind::people, 0},
    {"look for", "looks for", "looked for", "buscar", "", "busqué buscaste buscó buscamos buscaron", kind::people | kind::sought,
     0},
    {"listen to", "listens to", "listened to", "escuchar", "", "", kind::people | kind::heard, kind::outdoors, {.generic = true}},
    {"sing", "sings", "sang", "cantar", "", "", 0, kind::outdoors, {.social = true}},
    {"dance", "dances", "danced", "bailar", "", "", 0, kind::outdoors, {.social = true}},
    {"work", "works", "worked", "trabajar", "", "", 0, kind::workplace, {.social = true}},
    {"study", "studies", "studied", "estudiar", "", "", 0, kind::quiet, {.social = true}},
    {"wear", "wears", "", "llevar", "", "", kind::worn, 0, {.stative = true}},
    {"have",
     "has",
     "",
     "tener",
     "tengo tienes tiene tenemos tienen",
     "",
     kind::kin | kind::goods | kind::sought,
     0,
     {.stative = true, .generic = true}},
    {"want",
     "wants",
     "",
     "querer",
     "quiero quieres quiere queremos quieren",
     "",
     kind::goods,
     0,
     {.stative = true, .generic = true}},
    {"need", "needs", "", "necesitar", "", "", kind::goods | kind::sought, 0, {.stative = true, .generic = true}},
    {"live", "lives", "", "vivir", "", "", 0, kind::home, {.stative = true, .social = true}},
};

/// Verbs of motion take a place: `go to`, `ir a`.
inline constexpr Verb go = {"go to",    "goes to", "went to",        "ir", "voy vas va vamos van", "fui fuiste fue fuimos fueron",
                            kind::trip, 0,         {.social = true}, "a"};
inline constexpr Verb return_from = {
    "return from", "returns from", "returned from", "regresar", "", "", kind::trip, 0, {.social = true}, "de"};

/// Before another verb: want to, can, have to. Spanish puts `que` after the last.
inline constexpr Verb want_to = {"want to", "wants to", "", "querer", "quiero quieres quiere queremos quieren", "", 0, 0};
inline constexpr Verb able_to = {"can", "can", "", "poder", "puedo puedes puede podemos pueden", "", 0, 0};
inline constexpr Verb have_to = {"have to", "has to", "", "tener", "tengo tienes tiene tenemos tienen", "", 0, 0};

inline constexpr Determiner the = {"the", "the", "el la los las"}, a = {"a", "", "un una unos unas"}, none = {"", "", ""},
                            this_one = {"this", "these", "este esta estos estas"}, two = {"", "two", "dos"},
                            three = {"", "three", "tres"};
inline constexpr Determiner my = {"my", "my", "mi mi mis mis"}, your = {"your", "your", "tu tu tus tus"},
                            his = {"his", "his", "su su sus sus"}, her = {"her", "her", "su su sus sus"},
                            their = {"their", "their", "su su sus sus"},
                            our = {"our", "our", "nuestro nuestra nuestros nuestras"};

/// On and under go with furniture, the others with landmarks.
inline constexpr Fixed on = {"on", "en"}, under = {"under", "debajo de"};
inline constexpr Fixed beside[] = {{"near", "cerca de"}, {"behind", "detrás de"}, {"next to", "al lado de"}};

inline constexpr Fixed habits[] = {
    {"every day", "todos los días"}, {"in the morning", "por la mañana"}, {"on Sundays", "los domingos"}};
inline constexpr Fixed past_times[] = {{"yesterday", "ayer"}, {"last night", "anoche"}, {"last week", "la semana pasada"}};
inline constexpr Fixed coming_times[] = {{"tomorrow", "mañana"}, {"tonight", "esta noche"}, {"next week", "la próxima semana"}};
inline constexpr Fixed always = {"always", "siempre"}, never = {"never", "nunca"};

inline constexpr Fixed what = {"what", "qué"}, where = {"where", "dónde"}, when = {"when", "cuándo"}, why = {"why", "por qué"};

}  // namespace words
}  // namespace demo
