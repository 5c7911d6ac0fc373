// Written by `thalweg kinds`: the program needs the crate `thalweg-space`.

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thalweg_space::KindEnum)]
pub enum OrderPlacedColour {
    /// `red`.
    Red = 0,
    /// `deep_blue`.
    DeepBlue = 7,
}

/// An order was placed.
#[derive(Clone, Copy, Debug, thalweg_space::Kind)]
#[kind(name = "shop.order_placed")]
pub struct OrderPlaced<'a> {
    /// The customer that ordered.
    pub customer: u64,
    /// A field.
    pub r#type: i16,
    /// A field.
    #[field(unit = "euro")]
    pub price: f64,
    /// A field.
    pub share: f32,
    /// A field.
    #[field(absent = 0)]
    pub late: bool,
    /// A field.
    pub colour: OrderPlacedColour,
    /// A field.
    pub place: thalweg_space::SiteRef,
    /// A field.
    pub item: &'a str,
    /// A field.
    pub raw: &'a [u8],
}

/// An event.
#[derive(Clone, Copy, Debug, thalweg_space::Kind)]
#[kind(name = "shop.closed")]
pub struct Closed {
}
